//! Goal: statements answer as PostgreSQL 15 does. Method: files of statements and answers, in `tests/logic`; the
//! answers are those that PostgreSQL gave. Each file is run as simple queries and as prepared statements, over a
//! database of its own.

use quipu_testing::statements::{Answer, Client, Refusal, differences, files};

use crate::sessions;

/// A session that is asked.
struct Asked {
    client: sessions::Client,
    is_prepared: bool,
}

impl Client for Asked {
    fn ask(&mut self, text: &str) -> Result<Answer, Refusal> {
        match self.client.send(text, self.is_prepared).recv().expect("an answer") {
            Ok(answer) => Ok(Answer { columns: answer.columns, rows: answer.rows, tag: answer.tag }),
            Err(error) => Err(Refusal { code: error.state().code().to_owned(), text: error.to_string() }),
        }
    }
}

#[test]
fn statements_answer_as_those_of_postgresql() {
    for path in files() {
        let ask = |is_prepared| {
            let database = sessions::database();
            let connect = || Asked { client: sessions::Client::new(&database, "anna"), is_prepared };
            let failed = differences(&path, connect);
            let how = if is_prepared { "prepared" } else { "simple" };
            assert!(failed.is_empty(), "{} ({how}): {}", path.display(), failed.join("\n"));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| ask(true));
            ask(false);
        });
    }
}
