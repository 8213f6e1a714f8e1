//! A node that waits to join a cluster: its answers meanwhile, and how a member makes sure that it is there before the
//! members are changed for it.
//!
//! Until it has its place a node has no data and no thread that could answer. It says so to each client, with its
//! address in the field [`NODE`]; a node of a list that has not begun says the same.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::cluster::normal_address;

/// The field of an answer with `waiting` or `member`, and the address under which the node wants to be known.
pub(super) const NODE: HeaderName = HeaderName::from_static("quipu-node");

/// What stands in that field.
pub(super) fn standing(is_waiting: bool, self_url: &str) -> String {
    format!("{} {self_url}", if is_waiting { "waiting" } else { "member" })
}

/// Returns when the receiver is told to stop, or nothing is left that could tell.
pub(super) async fn until_stop(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stops| *stops).await;
}

/// How long a node may take to answer, and a client to ask.
const PATIENCE: Duration = Duration::from_secs(3);
const HEAD_BYTES_MAX: usize = 16 << 10;
const CLIENTS_MAX: usize = 64;

/// The listeners of a node that waits, each with a task.
pub(super) struct Waiting {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<TcpListener>>,
}

impl Waiting {
    /// Answers at `listeners` until [`Waiting::end`]. To be called in a runtime.
    pub(super) fn begin(listeners: Vec<TcpListener>, self_url: &str) -> Waiting {
        let (stop, stopping) = watch::channel(false);
        let text = format!("this node waits until it is added: quipu cluster add {self_url} --url MEMBER\n");
        let answer = |status: &str, text: &str| {
            let (field, standing, length) = (NODE, standing(true, self_url), text.len());
            format!(
                "HTTP/1.1 {status}\r\n{field}: {standing}\r\nretry-after: 1\r\ncontent-type: text/plain; \
                 charset=utf-8\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
            )
        };
        let healthy = answer("200 OK", "healthy\n");
        let answers = Arc::new((answer("503 Service Unavailable", &text), healthy));
        let places = Arc::new(Semaphore::new(CLIENTS_MAX));
        let task = |listener| tokio::spawn(accept(listener, stopping.clone(), answers.clone(), places.clone()));
        Waiting { tasks: listeners.into_iter().map(task).collect(), stop }
    }

    /// Gives the listeners back.
    pub(super) async fn end(self) -> Vec<TcpListener> {
        // The tasks listen to it.
        let _ = self.stop.send(true);
        let mut listeners = Vec::new();
        for task in self.tasks {
            // One that panicked has said so.
            listeners.extend(task.await.ok());
        }
        listeners
    }
}

async fn accept(
    listener: TcpListener,
    mut stopping: watch::Receiver<bool>,
    answers: Arc<(String, String)>,
    places: Arc<Semaphore>,
) -> TcpListener {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = until_stop(&mut stopping) => return listener,
        };
        match (accepted, places.clone().try_acquire_owned()) {
            (Ok((stream, _)), Ok(place)) => {
                let answers = answers.clone();
                tokio::spawn(async move {
                    // A client that is slow or gone is not waited for.
                    let _ = timeout(PATIENCE, answer(stream, &answers)).await;
                    drop(place);
                });
            }
            (Ok(_), Err(_)) => {}
            // The cause, such as too many open files, does not go away by asking again at once.
            (Err(_), _) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn answer(mut stream: TcpStream, (waits, healthy): &(String, String)) -> std::io::Result<()> {
    let head = read_head(&mut stream).await?;
    // Who asks whether a restart would help is told that it would not.
    let answer = if head.starts_with("GET /healthz ") { healthy } else { waits };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

async fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let length = stream.read(&mut piece).await?;
        if length == 0 || head.len() + length > HEAD_BYTES_MAX {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&piece[..length]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Finds out whether a node waits at a normal address and wants to be known by it.
///
/// # Errors
/// Why it cannot be added, and what to do.
pub(super) async fn ask(url: &str) -> Result<(), String> {
    let asked = async {
        let host = url.strip_prefix("http://").unwrap_or(url);
        let mut stream = TcpStream::connect(host).await?;
        let request = format!("GET /v0/status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        read_head(&mut stream).await
    };
    let start = format!("start it first: quipu serve --self-url {url} --join MEMBERS ...");
    let head = match timeout(PATIENCE, asked).await {
        Ok(Ok(head)) => head,
        Ok(Err(error)) => return Err(format!("no node answers at {url} ({error}); {start}")),
        Err(_) => return Err(format!("no node answers at {url} within {} s; {start}", PATIENCE.as_secs())),
    };
    judge(url, &head).map_err(|why| format!("{why}; {start}"))
}

/// What the head of an answer says of the node that gave it.
fn judge(url: &str, head: &str) -> Result<(), String> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let standing = fields.filter(|(name, _)| name.eq_ignore_ascii_case(NODE.as_str())).map(|(_, value)| value.trim());
    let Some((standing, known)) = standing.filter_map(|value| value.split_once(' ')).next() else {
        return Err(format!("what answers at {url} is not a node that waits to join a cluster"));
    };
    match (standing, normal_address(known).is_ok_and(|known| known == url)) {
        ("waiting", true) => Ok(()),
        (_, false) => Err(format!("the node at {url} wants to be known as {known} (`--self-url`)")),
        _ => Err(format!("the node at {url} has its place in a cluster already; to join it needs a new directory")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_added_if_it_waits_under_the_address_that_was_given() {
        let url = "http://d:8004";
        let head = |field: &str| format!("HTTP/1.1 503 Service Unavailable\r\n{field}\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(judge(url, &head("Quipu-Node: waiting http://D:8004/")), Ok(()));
        for (field, why) in [
            ("server: other", "is not a node"),
            ("quipu-node: waiting", "is not a node"),
            ("quipu-node: waiting http://e:8004", "wants to be known as http://e:8004"),
            ("quipu-node: member http://d:8004", "a new directory"),
        ] {
            let refused = judge(url, &head(field));
            assert!(refused.as_ref().is_err_and(|text| text.contains(why)), "{field}: {refused:?}");
        }
    }

    #[test]
    fn a_node_that_waits_says_so_and_gives_its_port_back() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let waiting = Waiting::begin(vec![listener], &url);
            assert_eq!(ask(&url).await, Ok(()));
            let listeners = waiting.end().await;
            assert_eq!(listeners.len(), 1);
            drop(listeners);
            let refused = ask(&url).await;
            assert!(refused.as_ref().is_err_and(|text| text.contains("start it first")), "{refused:?}");
        });
    }
}
