//! From a script that fails to a short one that fails alike: steps are left out, then words, then bytes of values,
//! while it still does.

use quipu_suite::shrink::minimize;

use crate::library::script::Script;
use crate::library::word::{Step, Word};

/// What a failure is told by: its words without numbers and what is quoted.
fn kind(text: &str) -> String {
    let text = text.split_once(": ").map_or(text, |(_, rest)| rest);
    text.chars().filter(|letter| letter.is_alphabetic() || *letter == ' ').take(24).collect()
}

/// Shrinks `script`, which fails as `text` says. `fails` is asked at most `trials` times, and says how.
pub fn shrink(script: Script, text: &str, trials: usize, fails: &mut dyn FnMut(&Script) -> Option<String>) -> Script {
    let mut left = trials;
    let wanted = kind(text);
    let mut script = script;
    let setup = script.setup.clone();
    let mode = script.mode.clone();
    let mut ask = |steps: &[Step]| {
        if left == 0 {
            return false;
        }
        left -= 1;
        let candidate = Script { mode: mode.clone(), setup: setup.clone(), steps: steps.to_vec() };
        fails(&candidate).is_some_and(|text| kind(&text) == wanted)
    };
    if !ask(&script.steps) {
        // It does not fail again: chance, or time, has a say in it.
        return script;
    }
    script.steps = minimize(script.steps, &mut ask);
    for index in (0..script.steps.len()).rev() {
        if script.steps[index].words.len() > 5 {
            let (steps, verb) = (script.steps.clone(), script.steps[index].verb.clone());
            let head = script.steps[index].words.len() % 3;
            let (start, triples) = script.steps[index].words.split_at(head);
            let chunks: Vec<Vec<Word>> = triples.chunks(3).map(<[Word]>::to_vec).collect();
            let with = |chunks: &[Vec<Word>]| {
                let mut steps = steps.clone();
                steps[index] = Step { verb: verb.clone(), words: [start, &chunks.concat()].concat() };
                steps
            };
            let chunks = minimize(chunks, &mut |chunks: &[Vec<Word>]| ask(&with(chunks)));
            script.steps = with(&chunks);
        }
    }
    for index in 0..script.steps.len() {
        for place in 0..script.steps[index].words.len() {
            let Word::Value(value) = script.steps[index].words[place] else { continue };
            for len in [0, value.len / 2] {
                let mut steps = script.steps.clone();
                steps[index].words[place] = Word::Value(crate::library::value::Value { len, fill: 0 });
                if ask(&steps) {
                    script.steps = steps;
                    break;
                }
            }
        }
    }
    script
}

#[test]
fn what_does_not_matter_is_left_out() {
    let step = |number: u64| Step::new("put", vec![Word::Number(number)]);
    let script = Script { steps: (0..200).map(step).collect(), ..Script::default() };
    let shrunk = shrink(script, "x: it broke 17", 1000, &mut |script| {
        let has = |number| script.steps.contains(&step(number));
        (has(17) && has(120) && has(199)).then(|| "y: it broke 199".to_owned())
    });
    assert_eq!(shrunk.steps, [step(17), step(120), step(199)]);
}
