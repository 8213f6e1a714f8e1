//! A network that belongs to a test: each node in a namespace of its own, a link between each two of them, which can be
//! cut, also one way, and one to the test. Needs a system that allows namespaces to all users.
//!
//! Each link between two nodes is a bridge that sends everything to its other port. A way is cut by telling the port at
//! its end to take nothing: so neither side is told, as with a cable that was pulled at the far end of a switch.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Set where the network can be made.
const INSIDE: &str = "QUIPU_TEST_HAS_NAMESPACES";
const PORT: u16 = 8080;

/// Whether this process may make networks and mounts of its own. If not, the test of this name is run again in one that
/// may (with the module that it is in), or skipped where the system has none.
pub fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let needed = "mount -t tmpfs tmpfs /run && ip netns add probe && ip link add bridge-probe type bridge && \
                  ip link add end-1 type veth peer name end-2 netns probe && ip link set end-1 master bridge-probe && \
                  bridge link set dev end-1 learning off flood off";
    let unshared = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "--mount", "--kill-child"]);
        command
    };
    match unshared().args(["sh", "-c", needed]).output() {
        Ok(output) if output.status.success() => {}
        other => {
            println!("skipped: no namespaces are allowed here: {other:?}");
            return false;
        }
    }
    let program = std::env::current_exe().expect("the path of this program");
    let output = unshared().arg(program).args([test, "--exact", "--nocapture"]).env(INSIDE, "1").output();
    let output = output.expect("unshare");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{text}");
    assert!(output.status.success() && text.contains("1 passed"), "{test} did not pass, or is not the test's name");
    false
}

/// The links between nodes.
pub struct Network {
    count: usize,
}

fn run(line: &str) {
    let output = Command::new("sh").args(["-c", line]).output().expect("a shell");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The port of the link between two nodes at which the second is.
fn port_to(from: usize, to: usize) -> String {
    format!("p{to}-{from}")
}

impl Network {
    /// The namespaces of so many nodes, all linked.
    pub fn new(count: usize) -> Network {
        let mut lines = vec![
            "mount -t tmpfs tmpfs /run".to_owned(),
            "ip link set lo up".to_owned(),
            "ip link add clients type bridge".to_owned(),
            "ip addr add 10.7.0.254/24 dev clients".to_owned(),
            "ip link set clients up".to_owned(),
        ];
        for node in 0..count {
            let last = node + 1;
            lines.extend([
                format!("ip netns add n{node}"),
                format!("ip -n n{node} link set lo up"),
                format!("ip -n n{node} addr add 10.9.{last}.1/32 dev lo"),
                format!("ip link add c{node} type veth peer name clients netns n{node}"),
                format!("ip link set c{node} master clients up"),
                format!("ip -n n{node} addr add 10.7.0.{last}/24 dev clients"),
                format!("ip -n n{node} link set clients up"),
                format!("ip route add 10.9.{last}.1/32 via 10.7.0.{last}"),
            ]);
        }
        for (one, two) in (0..count).flat_map(|two| (0..two).map(move |one| (one, two))) {
            lines.push(format!("ip link add b{one}-{two} type bridge"));
            lines.push(format!("ip link set b{one}-{two} up"));
            for (node, peer) in [(one, two), (two, one)] {
                let (port, link) = (port_to(peer, node), 10 * one + two);
                lines.extend([
                    format!("ip link add {port} type veth peer name to{peer} netns n{node}"),
                    format!("ip link set {port} master b{one}-{two} up"),
                    format!("bridge link set dev {port} learning off"),
                    format!("ip -n n{node} addr add 10.8.{link}.{}/24 dev to{peer}", node + 1),
                    format!("ip -n n{node} link set to{peer} up"),
                ]);
            }
            for (node, peer) in [(one, two), (two, one)] {
                let (own, other, link) = (node + 1, peer + 1, 10 * one + two);
                lines.push(format!(
                    "ip -n n{node} route add 10.9.{other}.1/32 via 10.8.{link}.{other} src 10.9.{own}.1"
                ));
            }
        }
        lines.iter().for_each(|line| run(line));
        Network { count }
    }

    /// Where a node is to listen.
    pub fn address(node: usize) -> SocketAddr {
        ([10, 9, node as u8 + 1, 1], PORT).into()
    }

    /// The command that runs a program where a node is.
    pub fn command(&self, node: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("n{node}"), program]);
        command
    }

    /// Nothing comes from one node to the other any more.
    pub fn cut(&self, from: usize, to: usize) {
        run(&format!("bridge link set dev {} flood off mcast_flood off bcast_flood off", port_to(from, to)));
    }

    /// Nothing comes from or to a node any more, but for the test's requests.
    pub fn isolate(&self, node: usize) {
        for peer in (0..self.count).filter(|peer| *peer != node) {
            self.cut(node, peer);
            self.cut(peer, node);
        }
    }

    /// All links are whole again.
    pub fn heal(&self) {
        for (from, to) in (0..self.count).flat_map(|to| (0..self.count).map(move |from| (from, to))) {
            if from != to {
                run(&format!("bridge link set dev {} flood on mcast_flood on bcast_flood on", port_to(from, to)));
            }
        }
    }
}

/// Gives a directory a disk of its own with so much room.
pub fn mount_disk(directory: &Path, megabytes: usize) {
    std::fs::create_dir_all(directory).expect("a directory");
    run(&format!("mount -t tmpfs -o size={megabytes}m tmpfs {}", directory.display()));
}
