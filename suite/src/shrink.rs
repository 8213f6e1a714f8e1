//! From a history with a difference to a short one: sub-sequences are tried until no step, and no unit of a pipeline,
//! can be left out any more (delta debugging: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing
//! input", 2002).

use crate::step::Step;

/// Shrinks `history`, of which `fails` holds, to a shorter one of which it holds. `fails` is asked at most `trials`
/// times.
pub fn shrink(history: Vec<Step>, trials: usize, mut fails: impl FnMut(&[Step]) -> bool) -> Vec<Step> {
    let mut left = trials;
    let mut ask = |candidate: &[Step]| {
        if left == 0 {
            return false;
        }
        left -= 1;
        fails(candidate)
    };
    // Most differences do not depend on what is sent together: then units are steps of their own from here on.
    let apart: Vec<Step> = history.iter().flat_map(pieces).collect();
    let history = if apart.len() > history.len() && ask(&apart) { apart } else { history };
    let mut shortest = minimize(history, &mut ask);
    for index in 0..shortest.len() {
        let Step::Pipeline { client, units, cuts } = shortest[index].clone() else { continue };
        let with = |units: &[Vec<_>], cuts: &[usize]| {
            let mut candidate = shortest.clone();
            candidate[index] = Step::Pipeline { client, units: units.to_vec(), cuts: cuts.to_vec() };
            candidate
        };
        let cuts = if !cuts.is_empty() && ask(&with(&units, &[])) { Vec::new() } else { cuts };
        let units = if units.len() > 1 { minimize(units, &mut |units: &[_]| ask(&with(units, &cuts))) } else { units };
        shortest = with(&units, &cuts);
    }
    shortest
}

/// The steps that do the same one unit at a time.
fn pieces(step: &Step) -> Vec<Step> {
    match step {
        Step::Pipeline { client, units, .. } => units.iter().map(|unit| Step::single(*client, unit.clone())).collect(),
        other => vec![other.clone()],
    }
}

/// Leaves out ever smaller pieces of a list of which `fails` holds, while it still does.
pub fn minimize<T: Clone>(mut items: Vec<T>, fails: &mut dyn FnMut(&[T]) -> bool) -> Vec<T> {
    let mut size = items.len().div_ceil(2);
    loop {
        let mut removed = false;
        // From the back: what comes just before the difference matters most.
        let mut end = items.len();
        while end > 0 {
            let start = end.saturating_sub(size);
            let candidate: Vec<T> = items[..start].iter().chain(&items[end..]).cloned().collect();
            if !candidate.is_empty() && fails(&candidate) {
                items = candidate;
                removed = true;
            }
            end = start;
        }
        if removed {
            size = size.min(items.len().div_ceil(2));
        } else if size <= 1 {
            return items;
        } else {
            size /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;

    fn step(text: &str) -> Step {
        Step::single(0, vec![Command::new(text)])
    }

    #[test]
    fn what_does_not_matter_is_left_out() {
        let history: Vec<Step> = (0..200).map(|number| step(&format!("SET k {number}"))).collect();
        let fails = |candidate: &[Step]| {
            let place = |number: usize| candidate.iter().position(|one| *one == step(&format!("SET k {number}")));
            matches!((place(17), place(120), place(199)), (Some(a), Some(b), Some(c)) if a < b && b < c)
        };
        let shortest = shrink(history, 1000, fails);
        assert_eq!(shortest, [step("SET k 17"), step("SET k 120"), step("SET k 199")]);
    }

    #[test]
    fn a_pipeline_that_matters_as_one_stays_one() {
        let units: Vec<Vec<Command>> = (0..40).map(|number| vec![Command::new("ECHO").number(number)]).collect();
        let history =
            vec![step("PING"), Step::Pipeline { client: 1, units: units.clone(), cuts: vec![3] }, step("PING")];
        let fails = |candidate: &[Step]| {
            candidate.iter().any(|one| match one {
                Step::Pipeline { units: own, .. } => own.contains(&units[5]) && own.contains(&units[30]),
                _ => false,
            })
        };
        let shortest = shrink(history, 1000, fails);
        let expected = Step::Pipeline { client: 1, units: vec![units[5].clone(), units[30].clone()], cuts: vec![] };
        assert_eq!(shortest, [expected]);
    }

    #[test]
    fn trials_are_bounded() {
        let mut asked = 0;
        let history: Vec<Step> = (0..100).map(|number| step(&format!("SET k {number}"))).collect();
        shrink(history, 10, |_| {
            asked += 1;
            false
        });
        assert_eq!(asked, 10);
    }
}
