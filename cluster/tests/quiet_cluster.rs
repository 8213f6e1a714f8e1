//! A cluster in virtual time without chance, whose clients wait for each answer.

use quipu_cluster::api::{Answer, Request};
use quipu_cluster::ids::{Now, Partition, Quorum};
use quipu_cluster::limits::Limits;
use quipu_cluster::simulation::plan::{Fault, FaultKind};
use quipu_cluster::simulation::world::World;

use crate::simulation::quiet;

pub struct Cluster(pub World);

impl Cluster {
    /// Each node keeps each key.
    pub fn new(nodes: usize) -> Cluster {
        Cluster::of(nodes, nodes as u8)
    }

    /// So many of the nodes keep the keys, and the same ones keep all.
    pub fn of(nodes: usize, replicas: u8) -> Cluster {
        let mut world = World::new(quiet(1, nodes, replicas, 1), Limits::tiny());
        world.run_until(2_000_000);
        Cluster(world)
    }

    pub fn run_ms(&mut self, ms: u64) {
        self.0.run_until(self.0.now_us + ms * 1000);
        assert_eq!(self.0.failure, None);
    }

    pub fn inflict(&mut self, kind: FaultKind, for_ms: u64) {
        self.0.inflict(&Fault { at_ms: 0, for_ms, kind });
    }

    pub fn set_clock(&mut self, slot: usize, by_ms: i64) {
        self.inflict(FaultKind::WrongClock { slot, by_ms }, 0);
    }

    pub fn ask(&mut self, slot: usize, request: Request) -> Answer {
        let place = self.0.history.len();
        self.0.request(slot, usize::MAX, request);
        while self.0.history[place].answer.is_none() {
            self.run_ms(1);
        }
        self.0.history[place].answer.clone().expect("it was waited for")
    }

    pub fn put(&mut self, slot: usize, value: &str, (ack, from): (u8, u8), ttl_ms: Option<u64>) -> Answer {
        let quorum = Some(Quorum { ack, from });
        let value = Some(value.as_bytes().to_vec());
        self.ask(slot, Request::Put { key: b"key".to_vec(), value, ttl_ms, quorum, condition: None })
    }

    pub fn writes(&mut self, slot: usize, value: &str, quorum: (u8, u8)) {
        let answer = self.put(slot, value, quorum, None);
        assert!(matches!(answer, Answer::Written { .. }), "through slot {slot}: {answer:?}");
    }

    pub fn get(&mut self, slot: usize, (ack, from): (u8, u8)) -> Answer {
        let quorum = Some(Quorum { ack, from });
        self.ask(slot, Request::Get { key: b"key".to_vec(), quorum, is_blocking: false })
    }

    pub fn reads(&mut self, slot: usize, quorum: (u8, u8)) -> String {
        match self.get(slot, quorum) {
            Answer::Value { value, .. } => String::from_utf8(value).expect("text"),
            other => format!("{other:?}"),
        }
    }

    /// The slots of the key's replicas, the first one first. (No node has another id than its slot.)
    pub fn order(&self) -> Vec<usize> {
        self.0.agreed.read_order(Partition(0)).iter().map(|node| usize::from(node.0)).collect()
    }

    pub fn now(&self) -> Now {
        let ms = self.0.now_us / 1000;
        Now { ticks_ms: ms, wall_ms: 1_700_000_000_000 + ms }
    }
}
