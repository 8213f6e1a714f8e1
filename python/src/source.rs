//! The source of rows: the present tables, a snapshot, or a transaction.
//!
//! Invariants:
//! 1. Nothing here holds the GIL: callers release it first, so a wait for a lock or for the writer's turn stops no
//!    other thread of Python. What is dropped with the GIL held waits for no Python code.
//! 2. A thread that has the single writer's turn never waits for it: what would is refused.
//! 3. Closing a database ends its snapshots and transactions, even if Python still holds their objects.

use std::collections::HashSet;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle, ThreadId};

use quipu::io::Process;
use quipu::{Durability, Error, ErrorKind, Result};
use quipu_rows::{Database, Isolation, RowSnapshot, RowTransaction};

use crate::error::invalid;
use crate::session::Sessions;
use crate::signals::{Stop, answer_of};
use crate::turns::{Pass, Turns};

/// An open database, until it is closed.
pub(crate) struct Opened {
    pub(crate) process: Process,
    pub(crate) is_read_only: bool,
    database: Mutex<Option<Database>>,
    /// Threads that have begun to write as the single writer and have not ended it.
    writing: Mutex<HashSet<ThreadId>>,
    pub(crate) turns: Arc<Turns>,
    /// Sessions of SQL.
    pub(crate) sessions: Sessions,
    /// What closing ends.
    ended: Mutex<Vec<Weak<dyn Ended>>>,
}

/// What ends with its database.
trait Ended: Send + Sync {
    fn end(&self);
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Opened {
    pub(crate) fn new(database: Database, is_read_only: bool) -> Arc<Opened> {
        Arc::new(Opened {
            is_read_only,
            process: Process::current(),
            database: Mutex::new(Some(database)),
            writing: Mutex::default(),
            turns: Arc::default(),
            sessions: Sessions::default(),
            ended: Mutex::default(),
        })
    }

    /// The database.
    ///
    /// # Errors
    /// `Invalid` if it was closed, and in another process.
    pub(crate) fn database(&self) -> Result<Database> {
        self.process.check()?;
        locked(&self.database).clone().ok_or_else(|| invalid("the database is closed"))
    }

    /// Whether the thread has the single writer's turn.
    pub(crate) fn is_writing(&self) -> bool {
        locked(&self.writing).contains(&thread::current().id())
    }

    /// The database, to be written to by a thread that does not have the writer's turn itself.
    ///
    /// # Errors
    /// Those of [`Opened::database`]; `Invalid` if the thread has it.
    fn database_to_write(&self) -> Result<Database> {
        self.process.check()?;
        if self.is_writing() {
            return Err(writes_itself());
        }
        self.database()
    }

    /// The database, to be changed once no transaction of the single writer is under way.
    ///
    /// # Errors
    /// Those of [`Opened::database_to_write`] and of [`Turns::enter`].
    pub(crate) fn database_to_change(&self) -> Result<Database> {
        self.database_to_write()?;
        self.turns.enter(false)?;
        // It may have been closed meanwhile.
        self.database()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.process.is_current() && locked(&self.database).is_some()
    }

    /// Ends snapshots and transactions, and closes the database. In another process it forgets the database, whose
    /// files and threads are not its own.
    ///
    /// # Errors
    /// Those of a sync.
    pub(crate) fn close(&self) -> Result<()> {
        if !self.process.is_current() {
            // Another thread may have had the lock at the fork.
            drop(self.database.try_lock().map(|mut database| database.take()));
            return Ok(());
        }
        let Some(database) = locked(&self.database).take() else { return Ok(()) };
        let ended = std::mem::take(&mut *locked(&self.ended));
        for ended in ended {
            if let Some(ended) = ended.upgrade() {
                ended.end();
            }
        }
        self.sessions.close();
        let db = database.db().clone();
        drop(database);
        db.close()
    }

    fn end_with_it(&self, ended: Weak<dyn Ended>) {
        let mut all = locked(&self.ended);
        if all.len() == all.capacity() {
            all.retain(|ended| ended.strong_count() > 0);
        }
        all.push(ended);
    }
}

/// A snapshot, until it is closed.
pub(crate) struct Moment {
    process: Process,
    snapshot: Mutex<Option<RowSnapshot>>,
}

impl Ended for Moment {
    fn end(&self) {
        locked(&self.snapshot).take();
    }
}

impl Moment {
    pub(crate) fn new(opened: &Opened) -> Result<Arc<Moment>> {
        let snapshot = Mutex::new(Some(opened.database()?.snapshot()));
        let moment = Arc::new(Moment { process: opened.process, snapshot });
        let weak: Weak<Moment> = Arc::downgrade(&moment);
        opened.end_with_it(weak);
        Ok(moment)
    }

    pub(crate) fn snapshot(&self) -> Result<RowSnapshot> {
        self.process.check()?;
        locked(&self.snapshot).clone().ok_or_else(|| invalid("the snapshot is closed"))
    }

    pub(crate) fn close(&self) {
        if self.process.is_current() {
            self.end();
        }
    }
}

/// A statement of a transaction, told whether it has begun well.
type Statement = Box<dyn FnOnce(&RowTransaction<'_>, Result<()>) + Send>;

/// What is sent to the thread of a transaction.
enum Message {
    Do(Statement),
    Commit,
}

/// A transaction under way. It stays in a thread of its own, which does what it is sent: that of the single writer is
/// lent to a closure, and neither can go from thread to thread.
struct Held {
    sender: Sender<Message>,
    thread: JoinHandle<Result<()>>,
    /// Ends what it does.
    stop: Stop,
    /// Of the transaction of the single writer.
    writer: Option<Writer>,
}

/// Who has the single writer's turn.
struct Writer {
    thread: ThreadId,
    pass: Pass,
}

/// A transaction, until it is committed or rolled back.
pub(crate) struct Running {
    opened: Arc<Opened>,
    held: Mutex<Option<Held>>,
}

impl Ended for Running {
    fn end(&self) {
        // Whatever it says, it is rolled back.
        let _ = self.rollback();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.opened.process.is_current() {
            self.end();
        } else {
            // The thread stayed in the other process: there is nothing to wait for.
            std::mem::forget(self.held.get_mut().map(Option::take));
        }
    }
}

/// A write beside the transaction of the single writer, by the thread that has it.
pub(crate) fn writes_itself() -> Error {
    invalid("this thread is the single writer: write through its transaction, or end it first")
}

fn moment_is_read() -> Error {
    Error::new(ErrorKind::ReadOnly, "a snapshot cannot be written to; write to the database")
}

fn over() -> Error {
    invalid("the transaction has ended")
}

impl Running {
    /// Begins a transaction in a thread that runs `work`, when that serves.
    fn begin(
        opened: &Arc<Opened>,
        pass: Option<Pass>,
        work: impl FnOnce(&Sender<()>, &Receiver<Message>) -> Result<()> + Send + 'static,
    ) -> Result<Arc<Running>> {
        let (sender, receiver) = mpsc::channel();
        let (began, begins) = mpsc::channel();
        let stop = Stop::default();
        let obeyed = stop.clone();
        let thread = thread::Builder::new().name("quipu-transaction".to_owned()).spawn(move || {
            obeyed.obey();
            work(&began, &receiver)
        });
        let thread = thread.map_err(|error| Error::caused_by(ErrorKind::Io, "cannot start a thread", error))?;
        if begins.recv().is_err() {
            return Err(joined(thread).err().unwrap_or_else(over));
        }
        let writer = pass.map(|pass| Writer { thread: thread::current().id(), pass });
        locked(&opened.writing).extend(writer.as_ref().map(|writer| writer.thread));
        let held = Mutex::new(Some(Held { sender, thread, stop, writer }));
        let running = Arc::new(Running { opened: Arc::clone(opened), held });
        let weak: Weak<Running> = Arc::downgrade(&running);
        opened.end_with_it(weak);
        Ok(running)
    }

    pub(crate) fn optimistic(
        opened: &Arc<Opened>,
        isolation: Isolation,
        durability: Option<Durability>,
    ) -> Result<Arc<Running>> {
        let database = opened.database()?;
        Running::begin(opened, None, move |began, receiver| {
            let mut transaction = database.begin_with(isolation);
            // The database may be closed while the transaction waits to be dropped.
            drop(database);
            serve(&mut transaction, began, receiver)?;
            match durability {
                None => transaction.commit(),
                Some(durability) => transaction.commit_with(durability),
            }
        })
    }

    /// Waits for the single writer's turn.
    ///
    /// # Errors
    /// Those of [`Opened::database_to_write`] and of [`Turns::enter`].
    pub(crate) fn writer(opened: &Arc<Opened>, durability: Option<Durability>) -> Result<Arc<Running>> {
        opened.database_to_write()?;
        let pass = opened.turns.enter(true)?;
        let database = opened.database()?;
        Running::begin(opened, Some(pass), move |began, receiver| {
            let work = |transaction: &RowTransaction<'_>| serve_writer(transaction, began, receiver);
            match durability {
                None => database.write(work),
                Some(durability) => database.write_with(durability, work),
            }
        })
    }

    /// Does something in the transaction. Long work that a signal ends is not undone: the exception does that, as it
    /// rolls back the transaction, or to the savepoint of a call that writes many rows.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RowTransaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.opened.process.check()?;
        let held = locked(&self.held);
        let held = held.as_ref().ok_or_else(over)?;
        if held.writer.is_none() {
            // It may reserve numbers of identity columns as the writer.
            self.opened.database_to_write()?;
        }
        let (answer, answers) = mpsc::channel();
        let work = move |transaction: &RowTransaction<'_>, begun: Result<()>| {
            // It is not waited for if the caller is gone.
            let _ = answer.send(begun.and_then(|()| work(transaction)));
        };
        held.stop.set(false);
        held.sender.send(Message::Do(Box::new(work))).map_err(|_| over())?;
        answer_of(&answers, || held.stop.set(true))?.ok_or_else(over)?
    }

    pub(crate) fn is_over(&self) -> bool {
        self.opened.process.is_current() && locked(&self.held).is_none()
    }

    pub(crate) fn commit(&self) -> Result<()> {
        self.opened.process.check()?;
        let mut pass = None;
        if locked(&self.held).as_ref().is_some_and(|held| held.writer.is_none()) {
            self.opened.database_to_write()?;
            pass = Some(self.opened.turns.enter(false)?);
        }
        let finished = self.finish(true);
        drop(pass);
        finished
    }

    /// # Errors
    /// `Invalid` if it has ended already.
    pub(crate) fn rollback(&self) -> Result<()> {
        self.finish(false)
    }

    fn finish(&self, commits: bool) -> Result<()> {
        self.opened.process.check()?;
        let Held { sender, thread, writer, .. } = locked(&self.held).take().ok_or_else(over)?;
        if commits {
            // If it has ended, joining tells why.
            let _ = sender.send(Message::Commit);
        }
        drop(sender);
        // Others wait in the engine from here on, while the commit is on its way to the disk.
        let writer = writer.map(|Writer { thread, pass }| {
            drop(pass);
            thread
        });
        let ended = joined(thread);
        if let Some(writer) = writer {
            locked(&self.opened.writing).remove(&writer);
        }
        // What is rolled back ends with the error that rolls it back.
        if commits { ended } else { Ok(()) }
    }
}

/// Does what is sent, each as a statement, until it is to commit.
///
/// # Errors
/// If it is to roll back.
fn serve(transaction: &mut RowTransaction<'_>, began: &Sender<()>, receiver: &Receiver<Message>) -> Result<()> {
    // The thread that began it waits.
    let _ = began.send(());
    while let Some(work) = next(receiver)? {
        let begun = transaction.begin_statement();
        work(transaction, begun);
    }
    Ok(())
}

/// Like [`serve`], for the single writer, who sees all that is committed.
fn serve_writer(transaction: &RowTransaction<'_>, began: &Sender<()>, receiver: &Receiver<Message>) -> Result<()> {
    let _ = began.send(());
    while let Some(work) = next(receiver)? {
        work(transaction, Ok(()));
    }
    Ok(())
}

/// What is to be done next; none if it is to commit.
fn next(receiver: &Receiver<Message>) -> Result<Option<Statement>> {
    match receiver.recv() {
        Ok(Message::Do(work)) => Ok(Some(work)),
        Ok(Message::Commit) => Ok(None),
        Err(_) => Err(invalid("rolled back")),
    }
}

fn joined(thread: JoinHandle<Result<()>>) -> Result<()> {
    thread.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Poisoned, "the writer's thread has failed")))
}

/// Where a table is read and written.
#[derive(Clone)]
pub(crate) enum Source {
    Live(Arc<Opened>),
    Moment(Arc<Moment>),
    Running(Arc<Running>),
}

impl Source {
    /// Writes: in the transaction, or as a commit of its own.
    ///
    /// # Errors
    /// `ReadOnly` if it is a snapshot, and those of `work` and of a commit.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RowTransaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match self {
            Source::Live(opened) => {
                opened.database_to_write()?;
                let pass = opened.turns.enter(false)?;
                let database = opened.database()?;
                database.write(move |transaction| {
                    drop(pass);
                    work(transaction)
                })
            }
            Source::Running(running) => running.run(work),
            Source::Moment(_) => Err(moment_is_read()),
        }
    }

    /// The database that it writes to.
    ///
    /// # Errors
    /// `ReadOnly` if it is a snapshot, `Invalid` if it was closed.
    pub(crate) fn database(&self) -> Result<Database> {
        match self {
            Source::Live(opened) => opened.database(),
            Source::Running(running) => running.opened.database(),
            Source::Moment(_) => Err(moment_is_read()),
        }
    }

    /// All tables at one moment: that of the snapshot, or now.
    ///
    /// # Errors
    /// `Invalid` if it was closed, or is a transaction.
    pub(crate) fn snapshot(&self) -> Result<RowSnapshot> {
        match self {
            Source::Live(opened) => Ok(opened.database()?.snapshot()),
            Source::Moment(moment) => moment.snapshot(),
            Source::Running(_) => Err(invalid("a transaction is not a snapshot")),
        }
    }

    /// The same tables, unchanged by others as long as they are read: live ones become a snapshot.
    pub(crate) fn at_one_moment(&self) -> Result<Source> {
        match self {
            Source::Live(opened) => Moment::new(opened).map(Source::Moment),
            source => Ok(source.clone()),
        }
    }
}
