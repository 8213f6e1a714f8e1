//! Values that are more than a number or a word: how they are read, and kept.
//!
//! Each function returns the value as `CONFIG GET` shows it, or why it cannot be, in Redis's words.

/// A number of bytes with a unit as Redis has them: `1k` is 1000, `1kb` is 1024.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// Limits of `value` in place of those of the same class in `old`.
pub(super) fn buffer_limits(value: &str, old: &str) -> Result<String, String> {
    const WRONG: &str = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
    let words: Vec<&str> = value.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    let mut limits: Vec<String> = old.split(' ').map(str::to_owned).collect();
    for group in words.chunks(4) {
        let class = match group[0].to_ascii_lowercase().as_str() {
            "normal" => 0,
            "slave" | "replica" => 1,
            "pubsub" => 2,
            _ => return Err("Invalid client class specified in buffer limit configuration.".to_owned()),
        };
        let numbers = [parse_bytes(group[1]), parse_bytes(group[2]), group[3].parse().ok()];
        for (place, number) in numbers.into_iter().enumerate() {
            limits[class * 4 + 1 + place] = number.ok_or(WRONG)?.to_string();
        }
    }
    Ok(limits.join(" "))
}

/// Three scores, for the server, its replicas, and its children.
pub(super) fn oom_scores(value: &str) -> Result<String, String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    if words.len() != 3 {
        return Err("wrong number of arguments".to_owned());
    }
    let is_score = |word: &&str| word.parse().is_ok_and(|number: i64| (-2000..=2000).contains(&number));
    if !words.iter().all(is_score) {
        return Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".to_owned());
    }
    Ok(words.join(" "))
}

/// Pairs of seconds and changes.
pub(super) fn save_points(value: &str) -> Result<String, String> {
    let numbers: Result<Vec<u64>, _> = value.split_whitespace().map(str::parse).collect();
    match numbers {
        Ok(numbers) if numbers.len().is_multiple_of(2) => {
            Ok(numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
        }
        _ => Err("Invalid save parameters".to_owned()),
    }
}

/// The letters of event classes, in Redis's order, `A` for most of them.
pub(super) fn event_classes(value: &str) -> Result<String, String> {
    const MOST: &str = "g$lshzxetd";
    let mut given: Vec<char> = Vec::new();
    for letter in value.chars() {
        match letter {
            'A' => given.extend(MOST.chars()),
            _ if "g$lshzxeKEtmdn".contains(letter) => given.push(letter),
            _ => return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned()),
        }
    }
    let has = |letter: &char| given.contains(letter);
    let mut kept = String::new();
    if MOST.chars().all(|letter| given.contains(&letter)) {
        kept.push('A');
    } else {
        kept.extend(MOST.chars().filter(has));
    }
    kept.extend("KEmn".chars().filter(has));
    if !kept.is_empty() {
        return Err("events of keys are not told here: there are no channels yet".to_owned());
    }
    Ok(kept)
}

/// The name of a policy of eviction: the one that evicts nothing.
pub(super) fn eviction_policy(value: &str) -> Result<String, String> {
    const POLICIES: [&str; 8] = [
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "noeviction",
    ];
    match POLICIES.iter().find(|policy| policy.eq_ignore_ascii_case(value)) {
        Some(&"noeviction") => Ok("noeviction".to_owned()),
        Some(_) => {
            Err("nothing is evicted here: over maxmemory, writes are refused; only noeviction is there".to_owned())
        }
        None => Err(format!("argument(s) must be one of the following: {}", POLICIES.join(", "))),
    }
}

/// Percentiles, each as short as may be: `50` for `50.0`.
pub(super) fn percentiles(value: &str) -> Result<String, String> {
    let number = |word: &str| word.parse().ok().filter(|number: &f64| (0.0..=100.0).contains(number));
    let numbers: Option<Vec<String>> =
        value.split_whitespace().map(|word| number(word).map(|number| number.to_string())).collect();
    let numbers = numbers.ok_or("Invalid latency-tracking-info-percentiles parameters")?;
    Ok(numbers.join(" "))
}
