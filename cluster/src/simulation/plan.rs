//! The plan of a simulation: all that will happen in it, drawn from a seed before it begins.

use crate::api::{Condition, Offset, Range, Request};
use crate::ids::{Quorum, Version};
use crate::node::Mutations;
use crate::random::{SplitMix, mix};

/// What a client asks of the node in a slot.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Write a value that tells which operation this is.
    Put {
        /// Lives so long; 0: for good.
        ttl_ms: u64,
    },
    /// Remove.
    Delete,
    /// Write if the key has the version that this slot's clients saw last, or does not exist.
    Swap,
    /// Read.
    Get {
        /// Whether the read writes back before it answers.
        is_blocking: bool,
    },
    /// Count all keys.
    Count,
    /// Page through all keys from an offset on.
    Page {
        /// The offset.
        offset: u64,
    },
}

/// A request at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// When, in milliseconds.
    pub at_ms: u64,
    /// Through which slot.
    pub slot: usize,
    /// Which key.
    pub key: u8,
    /// Replicas and answers.
    pub quorum: Quorum,
    /// What.
    pub ask: Ask,
}

impl Operation {
    /// Its request, as operation number `place` of a plan, by clients that saw this version of the key last.
    pub(super) fn request(&self, place: usize, seen: Option<Version>) -> Request {
        let key = vec![b'k', self.key];
        let quorum = Some(self.quorum);
        let range = Range { start: vec![b'k'], end: Vec::new() };
        let value = Some(value_of(place));
        match self.ask {
            Ask::Put { ttl_ms } => {
                Request::Put { key, value, ttl_ms: (ttl_ms > 0).then_some(ttl_ms), quorum, condition: None }
            }
            Ask::Delete => Request::Put { key, value: None, ttl_ms: None, quorum, condition: None },
            Ask::Swap => {
                let condition = match seen {
                    Some(version) => Condition::Is(vec![version]),
                    None => Condition::IsNot(Vec::new()),
                };
                Request::Put { key, value, ttl_ms: None, quorum, condition: Some(condition) }
            }
            Ask::Get { is_blocking } => Request::Get { key, quorum, is_blocking },
            Ask::Count => Request::Count { range, ack: 1 },
            Ask::Page { offset } => Request::Page { range, offset: Offset::Keys(offset), limit: 3, with_values: true },
        }
    }
}

/// The value that an operation writes: tells which it is, in lengths that differ.
pub fn value_of(operation: usize) -> Vec<u8> {
    let mut value = (operation as u64).to_le_bytes().to_vec();
    value.resize(8 + operation * 7 % 40, b'.');
    value
}

/// A mishap, or a change of the topology, at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When, in milliseconds.
    pub at_ms: u64,
    /// How long it lasts, in milliseconds.
    pub for_ms: u64,
    /// What.
    pub kind: FaultKind,
}

/// Kinds of faults.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// Frames from one slot to another are lost.
    Cut {
        /// From.
        from: usize,
        /// To.
        to: usize,
    },
    /// Frames between one slot and all others are lost.
    Isolate {
        /// Which.
        slot: usize,
    },
    /// The process is killed; with `loses_power` what its disk has not synced is lost too.
    Crash {
        /// Which.
        slot: usize,
        /// Whether the disk loses what was not synced.
        loses_power: bool,
    },
    /// The process does nothing.
    Pause {
        /// Which.
        slot: usize,
    },
    /// Everything to and from the slot takes so much longer.
    Slow {
        /// Which.
        slot: usize,
        /// Milliseconds.
        by_ms: u64,
    },
    /// The process is killed and its directory erased; it comes back under another id.
    Erase {
        /// Which.
        slot: usize,
    },
    /// The wall clock jumps.
    Jump {
        /// Which.
        slot: usize,
        /// By so many milliseconds.
        by_ms: i64,
    },
    /// The wall clock is wrong by so much, and then right again.
    WrongClock {
        /// Which.
        slot: usize,
        /// By so many milliseconds.
        by_ms: i64,
    },
    /// A member is added whose address was mistyped: nothing ever starts there. The operator finds out when
    /// faults end, and aborts the change or declares the member dead.
    Mistype,
    /// The log of the topology takes no entries.
    StallLog,
    /// A slot hears nothing of the log.
    DeafLog {
        /// Which.
        slot: usize,
    },
    /// A new node joins, in the next free slot.
    Join,
    /// A member leaves.
    Leave {
        /// Which.
        slot: usize,
    },
    /// The change of members under way is given up, if it still copies.
    Abort,
    /// The disk is full: it takes what frees space, and nothing else.
    FullDisk {
        /// Which.
        slot: usize,
    },
    /// All partitions are compared now.
    Repair {
        /// By whom.
        slot: usize,
    },
}

/// A whole simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where the network's and the disks' chances come from.
    pub seed: u64,
    /// Nodes at the start.
    pub nodes: usize,
    /// Replicas by default.
    pub replicas: u8,
    /// Partitions.
    pub partitions: u32,
    /// Wall clocks are wrong by so much, by slot.
    pub skews_ms: Vec<i64>,
    /// Frames lost, in thousandths.
    pub loss: u64,
    /// Frames that arrive twice, in thousandths.
    pub duplication: u64,
    /// The longest time of a frame on its way.
    pub delay_ms_max: u64,
    /// The longest time of a sync.
    pub sync_ms_max: u64,
    /// When faults end and the cluster must heal.
    pub chaos_ms: u64,
    /// Requests, by time.
    pub operations: Vec<Operation>,
    /// Faults, by time.
    pub faults: Vec<Fault>,
    /// Whether the nodes keep their tables in the engine, over a simulated disk, instead of in maps.
    pub has_engine: bool,
    /// Faults in the machine itself.
    pub mutations: Mutations,
}

/// The most slots of a simulation: nodes that are there, and those that may join.
pub const SLOTS_MAX: usize = 8;

impl Plan {
    /// The plan of a seed. Rates differ from seed to seed by an order of magnitude, and each kind of fault is in some
    /// plans and not in others.
    pub fn draw(seed: u64) -> Plan {
        let random = &mut SplitMix::new(seed);
        let nodes = [1, 2, 3, 3, 3, 3, 4, 5, 5][random.below(9) as usize];
        let replicas = random.below(nodes.min(3) as u64) as u8 + 1;
        let replicas = if random.happens(700) { nodes.min(3) as u8 } else { replicas };
        let chaos_ms = 2000 + random.below(8000);
        let keys = 1 + random.below(12) as u8;
        let skew_max = [0, 5, 300, 3000][random.below(4) as usize];
        let skews_ms = (0..SLOTS_MAX).map(|_| random.below(2 * skew_max + 1) as i64 - skew_max as i64).collect();
        let mut plan = Plan {
            seed,
            nodes,
            replicas,
            partitions: [1, 2, 4, 8][random.below(4) as usize],
            skews_ms,
            loss: [0, 0, 5, 30, 200][random.below(5) as usize],
            duplication: [0, 0, 20, 200][random.below(4) as usize],
            delay_ms_max: [1, 3, 10, 60][random.below(4) as usize],
            sync_ms_max: [0, 2, 10][random.below(3) as usize],
            chaos_ms,
            operations: Vec::new(),
            faults: Vec::new(),
            has_engine: false,
            mutations: Mutations::default(),
        };
        plan.draw_operations(random, keys);
        plan.draw_faults(random);
        plan.draw_stories(&mut SplitMix::new(mix(seed ^ 0xC10C)));
        plan.draw_aborts(&mut SplitMix::new(mix(seed)));
        plan.draw_full_disks(&mut SplitMix::new(mix(seed ^ 0xF011)));
        plan
    }

    /// Adds what seldom comes together by itself, to some plans: clocks far off, members that are mistyped, nodes that
    /// go down while members change, and a key that is written with several `from` or watched. Drawn apart, so that the
    /// rest of a seed's plan is what it would be without.
    fn draw_stories(&mut self, random: &mut SplitMix) {
        const FAR_MS: [i64; 3] = [120_000, 3_600_000, 3 * 86_400_000];
        let nodes = self.nodes as u64;
        let far_ms = |random: &mut SplitMix| {
            let by_ms = FAR_MS[random.below(3) as usize];
            if random.happens(700) { by_ms } else { -by_ms }
        };
        if random.happens(250) {
            for _ in 0..1 + random.below(4) {
                let kind = FaultKind::WrongClock { slot: random.below(nodes) as usize, by_ms: far_ms(random) };
                let longest_ms = [200, 1000, 4000][random.below(3) as usize];
                let for_ms = 10 + random.below(longest_ms);
                self.faults.push(Fault { at_ms: random.below(self.chaos_ms), for_ms, kind });
            }
        }
        if random.happens(80) {
            let slot = random.below(nodes) as usize;
            self.skews_ms[slot] += far_ms(random);
        }
        let is_change = |fault: &&Fault| matches!(fault.kind, FaultKind::Join | FaultKind::Leave { .. });
        let changes: Vec<u64> = self.faults.iter().filter(is_change).map(|fault| fault.at_ms).collect();
        for at_ms in changes {
            let kind = FaultKind::Crash { slot: random.below(nodes) as usize, loses_power: random.happens(500) };
            let at_ms = at_ms + random.below(400);
            if random.happens(300) {
                self.faults.push(Fault { at_ms, for_ms: 10 + random.below(500), kind });
            }
        }
        if random.happens(60) {
            self.faults.push(Fault { at_ms: random.below(self.chaos_ms), for_ms: 0, kind: FaultKind::Mistype });
        }
        let mixes_from = random.happens(120);
        if mixes_from || random.happens(150) {
            self.draw_story_of_a_key(random, mixes_from);
        }
        let random = &mut SplitMix::new(mix(self.seed ^ 0xA11));
        if self.nodes > 1 && random.happens(60) {
            self.draw_story_of_a_wide_key(random);
        }
        if self.chaos_ms > 6500 && random.happens(80) {
            self.draw_story_of_a_far_line(random);
        }
        let random = &mut SplitMix::new(mix(self.seed ^ 0xAB02));
        if self.nodes > 2 && self.chaos_ms > 3000 && random.happens(60) {
            self.draw_story_of_two_changes(random);
        }
        let random = &mut SplitMix::new(mix(self.seed ^ 0xAB03));
        if self.nodes > 2 && self.chaos_ms > 4000 && random.happens(60) {
            self.draw_story_of_a_last_write(random);
        }
        self.operations.sort_by_key(|operation| operation.at_ms);
        self.faults.sort_by_key(|fault| fault.at_ms);
    }

    /// Many messages are lost, so copies take long. A change is given up while some are under way, and another follows.
    fn draw_story_of_two_changes(&mut self, random: &mut SplitMix) {
        self.loss = 200;
        let at_ms = random.below(self.chaos_ms - 2500);
        for number in 0..8 {
            let slot = random.below(self.nodes as u64) as usize;
            let (at_ms, key) = (at_ms + random.below(500), 35 + number);
            let quorum = Quorum { ack: 1, from: if number < 7 { 1 } else { 2 } };
            self.operations.push(Operation { at_ms, slot, key, quorum, ask: Ask::Put { ttl_ms: 0 } });
        }
        let slot = random.below(self.nodes as u64) as usize;
        let other = (slot + 1 + random.below(self.nodes as u64 - 1) as usize) % self.nodes;
        let aborts_after_ms = 50 + random.below(150);
        for (after_ms, kind) in [
            (900, FaultKind::Leave { slot }),
            (900 + aborts_after_ms, FaultKind::Abort),
            (1200 + random.below(300), FaultKind::Leave { slot: other }),
        ] {
            self.faults.push(Fault { at_ms: at_ms + after_ms, for_ms: 0, kind });
        }
    }

    /// A node that is cut off is told to leave, and confirms what is written to all nodes. It is heard again when the
    /// others have all that they keep.
    fn draw_story_of_a_last_write(&mut self, random: &mut SplitMix) {
        let at_ms = random.below(self.chaos_ms - 3500);
        let slot = random.below(self.nodes as u64) as usize;
        let one = Quorum { ack: 1, from: self.nodes as u8 };
        for number in 0..4 {
            let (at_ms, key) = (at_ms + 100 + random.below(1000), 45 + number);
            self.operations.push(Operation { at_ms, slot, key, quorum: one, ask: Ask::Put { ttl_ms: 0 } });
        }
        let for_ms = 1500 + random.below(1500);
        self.faults.push(Fault { at_ms, for_ms, kind: FaultKind::Isolate { slot } });
        self.faults.push(Fault { at_ms: at_ms + 200, for_ms: 0, kind: FaultKind::Leave { slot } });
    }

    /// A key has replicas on all nodes, and others come: they copy it, and answer those who ask for the default.
    fn draw_story_of_a_wide_key(&mut self, random: &mut SplitMix) {
        const KEY: u8 = 26;
        let at_ms = random.below(self.chaos_ms - 1500);
        let all = Quorum { ack: self.nodes as u8, from: self.nodes as u8 };
        let one = Quorum { ack: 1, from: 1 };
        let reads = (0..8).map(|n| (400 + 130 * n, one, Ask::Get { is_blocking: false }));
        for (after_ms, quorum, ask) in [(0, all, Ask::Put { ttl_ms: 0 })].into_iter().chain(reads) {
            let slot = random.below(self.nodes as u64) as usize;
            self.operations.push(Operation { at_ms: at_ms + after_ms, slot, key: KEY, quorum, ask });
        }
        let slot = random.below(self.nodes as u64) as usize;
        let kind = if random.happens(700) { FaultKind::Erase { slot } } else { FaultKind::Join };
        self.faults.push(Fault { at_ms: at_ms + 200, for_ms: 0, kind });
    }

    /// All clocks are ahead while lines are drawn, and are set right; a store that is lost meanwhile comes back without
    /// these lines. Or all clocks are behind while a node joins and leaves: what was stamped meanwhile comes to nodes
    /// that had drawn lines above it.
    fn draw_story_of_a_far_line(&mut self, random: &mut SplitMix) {
        const HOUR_MS: i64 = 3_600_000;
        let for_ms = 1600 + random.below(800);
        let is_lost = self.nodes > 1 && random.happens(500);
        let (at_ms, by_ms) = if is_lost { (0, HOUR_MS) } else { (for_ms + 50, -HOUR_MS) };
        for slot in 0..if is_lost { self.nodes } else { self.nodes + 1 } {
            self.faults.push(Fault { at_ms, for_ms, kind: FaultKind::WrongClock { slot, by_ms } });
        }
        let slot = random.below(self.nodes as u64) as usize;
        if is_lost {
            let at_ms = 1000 + random.below(1000);
            self.faults.push(Fault { at_ms, for_ms: 0, kind: FaultKind::Erase { slot } });
        } else {
            self.faults.push(Fault { at_ms: for_ms + 100, for_ms: 0, kind: FaultKind::Join });
            self.faults.push(Fault { at_ms: for_ms + 2000, for_ms: 0, kind: FaultKind::Leave { slot: self.nodes } });
        }
        let most = Quorum { ack: self.replicas / 2 + 1, from: self.replicas };
        for number in 0..16 {
            let slot = random.below(self.nodes as u64) as usize;
            let key = 27 + number as u8 % 8;
            let puts = number < 8;
            let ask = if puts { Ask::Put { ttl_ms: 0 } } else { Ask::Get { is_blocking: false } };
            let at_ms = if puts { for_ms + 1000 } else { for_ms + 3500 } + random.below(500);
            self.operations.push(Operation { at_ms, slot, key, quorum: most, ask });
        }
    }

    /// A key is written to all, then to one, and a store is lost: what had one copy may be lost, and no more than that.
    fn draw_story_of_a_loss(&mut self, random: &mut SplitMix, key: u8) {
        let at_ms = random.below(self.chaos_ms - 1500);
        let all = Quorum { ack: self.replicas, from: self.replicas };
        let most = Quorum { ack: self.replicas / 2 + 1, from: self.replicas };
        let get = Ask::Get { is_blocking: false };
        let put = Ask::Put { ttl_ms: 0 };
        let first = [(0, all, put.clone()), (200, Quorum { ack: 1, from: 1 }, put), (400, all, get.clone())];
        let reads = (0..8).map(|n| (700 + 100 * n, most, get.clone()));
        for (after_ms, quorum, ask) in first.into_iter().chain(reads) {
            let slot = random.below(self.nodes as u64) as usize;
            self.operations.push(Operation { at_ms: at_ms + after_ms, slot, key, quorum, ask });
        }
        let kind = FaultKind::Erase { slot: random.below(self.nodes as u64) as usize };
        self.faults.push(Fault { at_ms: at_ms + 500, for_ms: 0, kind });
    }

    /// A key that is written, with several `from` or with one, and read again and again through all nodes.
    fn draw_story_of_a_key(&mut self, random: &mut SplitMix, mixes_from: bool) {
        let key = random.below(12) as u8;
        let begin_ms = random.below(self.chaos_ms);
        let within_ms = [100, 1000, self.chaos_ms][random.below(3) as usize];
        let has_ttl = random.happens(300);
        if mixes_from && self.nodes > 1 && random.happens(500) {
            self.draw_story_of_a_loss(random, key + 13);
        }
        for _ in 0..10 + random.below(50) {
            let from = if mixes_from { 1 + random.below(self.nodes as u64) as u8 } else { self.replicas };
            let read_from = self.replicas;
            let (ask, quorum) = match random.below(100) {
                0..15 => {
                    let ttl_ms = if has_ttl { 1 + random.below(3000) } else { 0 };
                    (Ask::Put { ttl_ms }, Quorum { ack: from / 2 + 1, from })
                }
                15..18 => (Ask::Delete, Quorum { ack: from / 2 + 1, from }),
                // Asks all, and mends.
                18..40 => (Ask::Get { is_blocking: false }, Quorum { ack: read_from, from: read_from }),
                _ => (Ask::Get { is_blocking: false }, Quorum { ack: read_from / 2 + 1, from: read_from }),
            };
            let at_ms = begin_ms + random.below(within_ms);
            let slot = random.below(self.nodes as u64) as usize;
            if at_ms < self.chaos_ms {
                self.operations.push(Operation { at_ms, slot, key, quorum, ask });
            }
        }
    }

    /// Gives up some of the changes of members, soon after they began.
    fn draw_aborts(&mut self, random: &mut SplitMix) {
        let is_change = |fault: &&Fault| matches!(fault.kind, FaultKind::Join | FaultKind::Leave { .. });
        let changes: Vec<u64> = self.faults.iter().filter(is_change).map(|fault| fault.at_ms).collect();
        for at_ms in changes {
            let at_ms = at_ms + 1 + random.below(300);
            if random.happens(300) {
                self.faults.push(Fault { at_ms, for_ms: 0, kind: FaultKind::Abort });
            }
        }
        self.faults.sort_by_key(|fault| fault.at_ms);
    }

    /// Disks of some nodes, or of all, are full for a while, in some plans. Drawn apart, as stories are.
    fn draw_full_disks(&mut self, random: &mut SplitMix) {
        if !random.happens(150) {
            return;
        }
        let at_ms = random.below(self.chaos_ms);
        let hits_all = random.happens(400);
        for slot in 0..self.nodes {
            if hits_all || random.happens(400) {
                let at_ms = at_ms + random.below(300);
                let for_ms = [100, 1000, 6000][random.below(3) as usize] + random.below(500);
                self.faults.push(Fault { at_ms, for_ms, kind: FaultKind::FullDisk { slot } });
            }
        }
        self.faults.sort_by_key(|fault| fault.at_ms);
    }

    fn draw_operations(&mut self, random: &mut SplitMix, keys: u8) {
        let count = 20 + random.below(180);
        let mixes_from = random.happens(150);
        let has_ttl = random.happens(300);
        let blocking = [0, 500, 1000][random.below(3) as usize];
        let fixed_ack = random.happens(600);
        for _ in 0..count {
            let from = match mixes_from {
                true => 1 + random.below(self.nodes as u64) as u8,
                false => self.replicas,
            };
            let ack = if fixed_ack { from / 2 + 1 } else { 1 + random.below(u64::from(from)) as u8 };
            let ask = match random.below(100) {
                0..40 => Ask::Put { ttl_ms: if has_ttl && random.happens(300) { 1 + random.below(2000) } else { 0 } },
                40..52 => Ask::Delete,
                52..60 => Ask::Swap,
                60..92 => Ask::Get { is_blocking: random.happens(blocking) },
                92..96 => Ask::Count,
                _ => Ask::Page { offset: random.below(8) },
            };
            self.operations.push(Operation {
                at_ms: random.below(self.chaos_ms),
                slot: random.below(self.nodes as u64 + 1) as usize,
                key: random.below(u64::from(keys)) as u8,
                quorum: Quorum { ack, from },
                ask,
            });
        }
        self.operations.sort_by_key(|operation| operation.at_ms);
    }

    fn draw_faults(&mut self, random: &mut SplitMix) {
        let slots = self.nodes as u64;
        let weights: Vec<u64> = (0..12).map(|_| [0, 0, 1, 1, 3][random.below(5) as usize]).collect();
        let total: u64 = weights.iter().sum();
        let count = [0, 2, 6, 20][random.below(4) as usize];
        for _ in 0..if total == 0 { 0 } else { count } {
            let mut draw = random.below(total);
            let kind = weights.iter().position(|weight| {
                let is_it = draw < *weight;
                draw = draw.saturating_sub(*weight);
                is_it
            });
            let slot = random.below(slots) as usize;
            let kind = match kind.unwrap_or(0) {
                0 => FaultKind::Cut { from: slot, to: random.below(slots) as usize },
                1 => FaultKind::Isolate { slot },
                2 => FaultKind::Crash { slot, loses_power: random.happens(500) },
                3 => FaultKind::Pause { slot },
                4 => FaultKind::Slow { slot, by_ms: 1 + random.below(400) },
                // The only copy is gone with its only store.
                5 if self.nodes > 1 => FaultKind::Erase { slot },
                6 => FaultKind::Jump { slot, by_ms: random.below(6001) as i64 - 3000 },
                7 => FaultKind::StallLog,
                8 => FaultKind::DeafLog { slot },
                9 => FaultKind::Join,
                10 if self.nodes > 1 => FaultKind::Leave { slot },
                _ => FaultKind::Repair { slot },
            };
            let longest_ms = [200, 1000, 4000][random.below(3) as usize];
            let for_ms = 10 + random.below(longest_ms);
            self.faults.push(Fault { at_ms: random.below(self.chaos_ms), for_ms, kind });
        }
        self.faults.sort_by_key(|fault| fault.at_ms);
    }
}
