//! Comparison of replies: the same bytes, but for the [`exceptions`](crate::exceptions).

use crate::client::Answer;
use crate::command::Command;
use crate::exceptions::{Rule, rule_of};
use crate::value::{Body, Value};

/// What the replies of one connection are compared by: remembers what a transaction has queued, since EXEC answers for
/// it.
#[derive(Clone, Debug, Default)]
pub struct Session {
    queued: Option<Vec<Rule>>,
}

impl Session {
    /// Compares the answers to `command`, the next of the connection.
    ///
    /// # Errors
    ///
    /// What differs, in words.
    pub fn compare(&mut self, command: &Command, reference: &Answer, subject: &Answer) -> Result<(), String> {
        let own = rule_of(command);
        let Answer::Reply { value, raw } = reference else {
            self.queued = None;
            return match (reference, subject) {
                (Answer::Closed(reference), Answer::Closed(subject)) if reference == subject => Ok(()),
                _ => Err("not both sent a reply".to_string()),
            };
        };
        let rules = self.follow(command, own, value);
        let Answer::Reply { value: other, raw: other_raw } = subject else {
            return Err("not both sent a reply".to_string());
        };
        if raw == other_raw {
            return Ok(());
        }
        match rules {
            None => compare(own, value, other),
            Some(rules) => compare_each(&rules, value, other),
        }
    }

    /// Follows what MULTI has queued, by the reference's replies; the rules of the items of an EXEC's reply.
    fn follow(&mut self, command: &Command, own: Rule, reply: &Value) -> Option<Vec<Rule>> {
        if reply.is_simple("QUEUED") {
            if let Some(queued) = &mut self.queued {
                queued.push(own);
            }
            return None;
        }
        match command.name().as_str() {
            "MULTI" if reply.is_simple("OK") => self.queued = Some(Vec::new()),
            "DISCARD" | "RESET" if !reply.is_error() => self.queued = None,
            "EXEC" if !reply.is_error() || reply.is_error_with("EXECABORT") => {
                let rules = self.queued.take()?;
                return (reply.items()?.len() == rules.len()).then_some(rules);
            }
            _ => {}
        }
        None
    }
}

/// Compares the items of two replies, each by its rule.
fn compare_each(rules: &[Rule], reference: &Value, subject: &Value) -> Result<(), String> {
    let (Some(references), Some(subjects)) = (reference.items(), subject.items()) else {
        return Err("the bytes differ".to_string());
    };
    if reference.marker != subject.marker || references.len() != subjects.len() {
        return Err("the bytes differ".to_string());
    }
    for (index, ((reference, subject), rule)) in references.iter().zip(subjects).zip(rules).enumerate() {
        compare(*rule, reference, subject).map_err(|why| format!("reply {} of the transaction: {why}", index + 1))?;
    }
    Ok(())
}

/// Whether two replies differ only in what an encoding decides: a score of minus zero is told as `-0` or `0` by Redis,
/// as the set's encoding happens to be, and that is the larger one also for a set that has become small again.
fn same_but_for_encodings(reference: &Value, subject: &Value) -> bool {
    match (&reference.body, &subject.body) {
        (Body::Items(references), Body::Items(subjects)) => {
            reference.marker == subject.marker
                && references.len() == subjects.len()
                && references.iter().zip(subjects).all(|(a, b)| a == b || same_but_for_encodings(a, b))
        }
        (Body::Text(a), Body::Text(b)) => {
            reference.marker == subject.marker
                && matches!((&a[..], &b[..]), (b"-0", b"0") | (b"0", b"-0") | (b"skiplist", b"listpack"))
        }
        _ => false,
    }
}

/// Compares two replies by a rule.
///
/// # Errors
///
/// What differs, in words.
pub fn compare(rule: Rule, reference: &Value, subject: &Value) -> Result<(), String> {
    if reference == subject || same_but_for_encodings(reference, subject) {
        return Ok(());
    }
    if reference.is_error() || subject.is_error() {
        return Err("the errors differ".to_string());
    }
    match rule {
        Rule::Exact => Err("the bytes differ".to_string()),
        Rule::Near(tolerance) => match (reference.integer(), subject.integer()) {
            (Some(a), Some(b)) if a >= 0 && b >= 0 && a.abs_diff(b) <= tolerance => Ok(()),
            _ => Err(format!("not integers within {tolerance} of each other")),
        },
        Rule::AnyOrder => {
            let sorted = |value: &Value| {
                let mut items: Vec<String> = value.items()?.iter().map(|item| format!("{item:?}")).collect();
                items.sort();
                Some(items)
            };
            let same = reference.marker == subject.marker && sorted(reference) == sorted(subject);
            if same { Ok(()) } else { Err("the items differ, in any order".to_string()) }
        }
        Rule::SameKind => {
            let nil = |value: &Value| value.body == Body::Nil;
            let same = reference.marker == subject.marker && nil(reference) == nil(subject);
            if same { Ok(()) } else { Err("the kinds of the replies differ".to_string()) }
        }
        Rule::SameShape => {
            if same_shape(reference, subject) {
                Ok(())
            } else {
                Err("the shapes of the replies differ".to_string())
            }
        }
        Rule::FieldsExcept(free) => compare_fields(free, reference, subject),
    }
}

fn same_shape(one: &Value, other: &Value) -> bool {
    one.marker == other.marker
        && match (&one.body, &other.body) {
            (Body::Nil, Body::Nil) | (Body::Text(_), Body::Text(_)) => true,
            (Body::Items(one), Body::Items(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_shape(one, other))
            }
            _ => false,
        }
}

fn compare_fields(free: &[&str], reference: &Value, subject: &Value) -> Result<(), String> {
    let (Some(references), Some(subjects)) = (reference.items(), subject.items()) else {
        return Err("the bytes differ".to_string());
    };
    if reference.marker != subject.marker || references.len() != subjects.len() {
        return Err("the numbers of fields differ".to_string());
    }
    for (reference, subject) in references.chunks(2).zip(subjects.chunks(2)) {
        let name = String::from_utf8_lossy(reference[0].text().unwrap_or_default()).into_owned();
        if reference[0] != subject[0] {
            return Err(format!("the field {name} is not at the same place"));
        }
        if free.contains(&name.as_str()) {
            if reference[1].marker != subject[1].marker {
                return Err(format!("the kinds of the field {name} differ"));
            }
        } else if reference[1..] != subject[1..] {
            return Err(format!("the values of the field {name} differ"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: &[u8]) -> Value {
        Value::decode(bytes).unwrap().unwrap().0
    }

    fn answer(bytes: &[u8]) -> Answer {
        Answer::Reply { value: value(bytes), raw: bytes.to_vec() }
    }

    fn same(rule: Rule, reference: &[u8], subject: &[u8]) -> bool {
        compare(rule, &value(reference), &value(subject)).is_ok()
    }

    #[test]
    fn each_rule_frees_what_it_names_only() {
        assert!(!same(Rule::Exact, b":1\r\n", b":2\r\n"));
        assert!(!same(Rule::Exact, b"$-1\r\n", b"*-1\r\n"));
        assert!(same(Rule::Near(2), b":100\r\n", b":98\r\n"));
        assert!(!same(Rule::Near(2), b":100\r\n", b":97\r\n"));
        assert!(!same(Rule::Near(2), b":-1\r\n", b":-2\r\n"));
        assert!(!same(Rule::Near(2), b":0\r\n", b":-1\r\n"));
        assert!(same(Rule::AnyOrder, b"*2\r\n+a\r\n+b\r\n", b"*2\r\n+b\r\n+a\r\n"));
        assert!(!same(Rule::AnyOrder, b"*2\r\n+a\r\n+a\r\n", b"*2\r\n+b\r\n+a\r\n"));
        assert!(!same(Rule::AnyOrder, b"*1\r\n+a\r\n", b"~1\r\n+a\r\n"));
        assert!(same(Rule::SameKind, b"$1\r\na\r\n", b"$2\r\nbb\r\n"));
        assert!(!same(Rule::SameKind, b"$1\r\na\r\n", b"$-1\r\n"));
        assert!(!same(Rule::SameKind, b"-ERR a\r\n", b"-ERR b\r\n"));
        assert!(same(Rule::SameShape, b"*1\r\n$1\r\na\r\n", b"*1\r\n$1\r\nb\r\n"));
        assert!(!same(Rule::SameShape, b"*1\r\n$1\r\na\r\n", b"*2\r\n$1\r\nb\r\n$1\r\nc\r\n"));
        let fields = Rule::FieldsExcept(&["id"]);
        assert!(same(fields, b"%2\r\n+id\r\n:1\r\n+proto\r\n:3\r\n", b"%2\r\n+id\r\n:9\r\n+proto\r\n:3\r\n"));
        assert!(!same(fields, b"%2\r\n+id\r\n:1\r\n+proto\r\n:3\r\n", b"%2\r\n+id\r\n:1\r\n+proto\r\n:2\r\n"));
    }

    #[test]
    fn a_transaction_is_compared_reply_by_reply() {
        let compared = |ttl: &[u8], count: &[u8]| {
            let mut session = Session::default();
            let (ok, queued) = (answer(b"+OK\r\n"), answer(b"+QUEUED\r\n"));
            session.compare(&Command::new("multi"), &ok, &ok).unwrap();
            session.compare(&Command::new("TTL k"), &queued, &queued).unwrap();
            session.compare(&Command::new("ZCARD z"), &queued, &queued).unwrap();
            let reference = answer(b"*2\r\n:100\r\n:5\r\n");
            let subject = answer(&[b"*2\r\n", ttl, count].concat());
            session.compare(&Command::new("EXEC"), &reference, &subject)
        };
        assert_eq!(compared(b":99\r\n", b":5\r\n"), Ok(()));
        assert_eq!(compared(b":99\r\n", b":6\r\n"), Err("reply 2 of the transaction: the bytes differ".to_string()));
    }

    #[test]
    fn silence_and_a_closed_connection_differ_from_a_reply() {
        let mut session = Session::default();
        let (reply, closed) = (answer(b"+OK\r\n"), Answer::Closed(vec![]));
        let ping = Command::new("PING");
        assert!(session.compare(&ping, &reply, &closed).is_err());
        assert!(session.compare(&ping, &closed, &reply).is_err());
        assert!(session.compare(&ping, &Answer::Silence(vec![]), &Answer::Silence(vec![])).is_err());
        assert!(session.compare(&ping, &closed, &closed).is_ok());
    }
}
