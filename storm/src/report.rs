//! The report of a run, in numbers.

use std::fmt;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// How often what was done.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Adds others.
            pub fn add(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
            }

            /// From what they print.
            pub fn parse(text: &str) -> Counters {
                let mut counters = Counters::default();
                for word in text.split_whitespace() {
                    match word.split_once('=') {
                        $(Some((stringify!($name), number)) => counters.$name = number.parse().unwrap_or(0),)*
                        _ => {}
                    }
                }
                counters
            }
        }

        impl fmt::Display for Counters {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let all = [$((stringify!($name), self.$name)),*];
                let mut space = "";
                for (name, number) in all.into_iter().filter(|(_, number)| *number > 0) {
                    write!(f, "{space}{name}={number}")?;
                    space = " ";
                }
                Ok(())
            }
        }
    };
}

counters! {
    /// Steps.
    steps,
    /// Questions.
    questions,
    /// Commits.
    commits,
    /// Optimistic transactions that committed.
    transactions,
    /// Those that met a conflict.
    conflicts,
    /// Checkpoints.
    checkpoints,
    /// Merges and rewrites asked for.
    merges,
    /// Openings of the same files.
    reopens,
    /// Processes killed.
    kills,
    /// Disks as found after a crash, opened and compared.
    crash_points,
    /// Calls of the disk that were made to fail.
    faults,
    /// Disks with damage, opened and compared.
    damaged,
    /// Simulations of a cluster.
    plans,
    /// Commands sent to servers, and requests answered by simulated clusters.
    commands,
}

#[test]
fn counters_come_back() {
    let counters = Counters { steps: 3, damaged: 9, ..Counters::default() };
    assert_eq!(Counters::parse(&counters.to_string()), counters);
}
