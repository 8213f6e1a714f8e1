//! Goal: statements answer as PostgreSQL 15 does. Method: files of statements and answers, in `tests/logic`; the
//! answers are those that PostgreSQL gave. Each file is run as simple queries and as prepared statements, over a
//! database of its own. Most are run once more with hardly any memory, so that rows go to temporary files.

use quipu_testing::statements::{Answer, Client, Refusal, differences, files};

use crate::sessions;

/// How statements are run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Simple,
    Prepared,
    /// As simple queries that keep hardly any rows in memory, so that most sorts, groups and joins use files. A
    /// statement that is refused for that is run again with more.
    WithFiles,
}

const HARDLY_ANY: &str = "SET statement_memory = '16kB'";

/// Files that are not run so, since they set the memory of statements.
const WITHOUT_FILES: [&str; 2] = ["memory.slt", "numerics.slt"];

/// A session that is asked.
struct Asked {
    client: sessions::Client,
    way: Way,
}

impl Asked {
    fn answer(&self, text: &str) -> Result<Answer, Refusal> {
        match self.client.send(text, self.way == Way::Prepared).recv().expect("an answer") {
            Ok(answer) => Ok(Answer { columns: answer.columns, rows: answer.rows, tag: answer.tag }),
            Err(error) => Err(Refusal { code: error.state().code().to_owned(), text: error.to_string() }),
        }
    }
}

impl Client for Asked {
    fn ask(&mut self, text: &str) -> Result<Answer, Refusal> {
        let answer = self.answer(text);
        if self.way != Way::WithFiles || answer.as_ref().err().is_none_or(|refusal| refusal.code != "53200") {
            return answer;
        }
        self.answer("RESET statement_memory")?;
        let answer = self.answer(text);
        self.answer(HARDLY_ANY)?;
        answer
    }
}

#[test]
fn statements_answer_as_those_of_postgresql() {
    let mut failed = Vec::new();
    for path in files() {
        let ask = |way: Way| -> Option<String> {
            let database = sessions::database();
            let connect = || {
                let asked = Asked { client: sessions::Client::new(&database, "anna"), way };
                if way == Way::WithFiles {
                    asked.answer(HARDLY_ANY).expect("it is set");
                }
                asked
            };
            let failed = differences(&path, connect);
            (!failed.is_empty()).then(|| format!("{} ({way:?}): {}", path.display(), failed.join("\n")))
        };
        std::thread::scope(|scope| {
            let prepared = scope.spawn(|| ask(Way::Prepared));
            failed.extend(ask(Way::Simple));
            if !WITHOUT_FILES.iter().any(|name| path.ends_with(name)) {
                failed.extend(ask(Way::WithFiles));
            }
            failed.extend(prepared.join().expect("no panic"));
        });
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
