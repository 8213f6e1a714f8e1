//! A queue of jobs with priorities that survives a crash: jobs are taken by several threads, each once, and a job whose
//! worker dies comes back.
//!
//!     cargo run -p quipu --example queue
//!
//! `waiting` is in the order in which jobs are taken. To take one is to move it to `running` in one transaction.

use std::thread;

use quipu::tuple::{self, Element};
use quipu::{Db, Entry, Options, ReadableTable, Result, Table, WritableTable};

#[derive(Clone)]
struct Queue {
    db: Db,
    waiting: Table,
    running: Table,
}

impl Queue {
    /// Opens the queue. What was running when the program ended waits again.
    fn open(db: Db) -> Result<Queue> {
        let queue = Queue { waiting: db.ensure_table("waiting")?, running: db.ensure_table("running")?, db };
        queue.db.write(|transaction| {
            let (waiting, running) = (transaction.table(&queue.waiting)?, transaction.table(&queue.running)?);
            while let Some(job) = running.pop_first()? {
                waiting.put(&*job.key, &*job.value)?;
            }
            Ok(())
        })?;
        Ok(queue)
    }

    /// Adds a job. A lower priority is taken first; jobs of one priority in the order of their numbers.
    fn add(&self, priority: i64, number: i64, job: &str) -> Result<()> {
        self.waiting.insert(tuple::encode(&[Element::from(priority), Element::from(number)]), job)
    }

    /// Takes the next job.
    fn take(&self) -> Result<Option<Entry>> {
        self.db.write(|transaction| {
            let job = transaction.table(&self.waiting)?.pop_first()?;
            if let Some(job) = &job {
                transaction.table(&self.running)?.put(&*job.key, &*job.value)?;
            }
            Ok(job)
        })
    }

    /// Forgets a job that is done.
    fn finish(&self, job: &Entry) -> Result<()> {
        self.running.delete(&*job.key)
    }
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let queue = Queue::open(Db::open(directory.path(), Options::default())?)?;
    for number in 0..100 {
        queue.add(number % 3, number, &format!("job {number}"))?;
    }
    println!(
        "{} jobs wait; {} of them are urgent",
        queue.waiting.len()?,
        queue.waiting.rank(tuple::encode(&[1.into()]))?
    );
    let work = |queue: Queue| -> Result<u32> {
        let mut done = 0;
        while let Some(job) = queue.take()? {
            queue.finish(&job)?;
            done += 1;
        }
        Ok(done)
    };
    let workers: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn({
                let queue = queue.clone();
                move || work(queue)
            })
        })
        .collect();
    let mut done = 0;
    for worker in workers {
        done += worker.join().expect("the worker ends")?;
    }
    println!("{done} jobs are done");
    assert_eq!((done, queue.waiting.len()?, queue.running.len()?), (100, 0, 0));
    Ok(())
}
