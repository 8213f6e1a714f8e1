//! Failure detection: foca's SWIM, fed with this node's time and messages.
//!
//! Hints, counting plans and readiness go by its verdict; requests go by a faster one ([`peers`](crate::peers)).
//! Members come from the topology, so no node joins by gossip. A restarted node outranks reports about its earlier
//! start.
//!
//! Not here: sending. Messages go out as frames.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use bytes::{Buf, BufMut};
use foca::{AccumulatingRuntime, Codec, Config, Foca, Header, Identity, Member, Message, NoCustomBroadcast};
use foca::{OwnedNotification, PeriodicParams, State, Timer};

use crate::ids::NodeId;
use crate::random::SplitMix;

/// One life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    node: u16,
    /// The number of its start, times 65,536, plus how often it had to contradict its death since.
    start: u64,
}

impl Identity for Life {
    type Addr = u16;

    fn renew(&self) -> Option<Life> {
        Some(Life { start: self.start + 1, ..*self })
    }

    fn addr(&self) -> u16 {
        self.node
    }

    fn win_addr_conflict(&self, adversary: &Life) -> bool {
        self.start > adversary.start
    }
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug)]
struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a malformed message of the failure detector")
    }
}

impl std::error::Error for Malformed {}

/// Fields of fixed length, big-endian as `bytes` has them.
struct Fixed;

const LIFE_BYTES: usize = 10;
/// How often members that are not heard of are greeted, and how many of them.
const GREET_EVERY_MS: u64 = 500;
const GREETED: usize = 3;

fn put_life(life: &Life, buffer: &mut impl BufMut) -> Result<(), Malformed> {
    if buffer.remaining_mut() < LIFE_BYTES {
        return Err(Malformed);
    }
    buffer.put_u16(life.node);
    buffer.put_u64(life.start);
    Ok(())
}

fn life(buffer: &mut impl Buf) -> Result<Life, Malformed> {
    Ok(Life { node: buffer.try_get_u16().map_err(|_| Malformed)?, start: buffer.try_get_u64().map_err(|_| Malformed)? })
}

impl Codec<Life> for Fixed {
    type Error = Malformed;

    fn encode_header(&mut self, header: &Header<Life>, mut buffer: impl BufMut) -> Result<(), Malformed> {
        put_life(&header.src, &mut buffer)?;
        put_life(&header.dst, &mut buffer)?;
        let (kind, number, about) = match &header.message {
            Message::Ping(number) => (1, *number, None),
            Message::Ack(number) => (2, *number, None),
            Message::PingReq { target, probe_number } => (3, *probe_number, Some(target)),
            Message::IndirectPing { origin, probe_number } => (4, *probe_number, Some(origin)),
            Message::IndirectAck { target, probe_number } => (5, *probe_number, Some(target)),
            Message::ForwardedAck { origin, probe_number } => (6, *probe_number, Some(origin)),
            Message::Announce => (7, 0, None),
            Message::Feed => (8, 0, None),
            Message::Gossip => (9, 0, None),
            Message::Broadcast => (10, 0, None),
            Message::TurnUndead => (11, 0, None),
        };
        if buffer.remaining_mut() < 4 {
            return Err(Malformed);
        }
        buffer.put_u16(header.src_incarnation);
        buffer.put_u8(kind);
        buffer.put_u8(number);
        about.map_or(Ok(()), |about| put_life(about, &mut buffer))
    }

    fn decode_header(&mut self, mut buffer: impl Buf) -> Result<Header<Life>, Malformed> {
        let (src, dst) = (life(&mut buffer)?, life(&mut buffer)?);
        let src_incarnation = buffer.try_get_u16().map_err(|_| Malformed)?;
        let kind = buffer.try_get_u8().map_err(|_| Malformed)?;
        let probe_number = buffer.try_get_u8().map_err(|_| Malformed)?;
        let message = match kind {
            1 => Message::Ping(probe_number),
            2 => Message::Ack(probe_number),
            3 => Message::PingReq { target: life(&mut buffer)?, probe_number },
            4 => Message::IndirectPing { origin: life(&mut buffer)?, probe_number },
            5 => Message::IndirectAck { target: life(&mut buffer)?, probe_number },
            6 => Message::ForwardedAck { origin: life(&mut buffer)?, probe_number },
            7 => Message::Announce,
            8 => Message::Feed,
            9 => Message::Gossip,
            10 => Message::Broadcast,
            11 => Message::TurnUndead,
            _ => return Err(Malformed),
        };
        Ok(Header { src, src_incarnation, dst, message })
    }

    fn encode_member(&mut self, member: &Member<Life>, mut buffer: impl BufMut) -> Result<(), Malformed> {
        put_life(member.id(), &mut buffer)?;
        if buffer.remaining_mut() < 3 {
            return Err(Malformed);
        }
        buffer.put_u16(member.incarnation());
        buffer.put_u8(match member.state() {
            State::Alive => 0,
            State::Suspect => 1,
            State::Down => 2,
        });
        Ok(())
    }

    fn decode_member(&mut self, mut buffer: impl Buf) -> Result<Member<Life>, Malformed> {
        let id = life(&mut buffer)?;
        let incarnation = buffer.try_get_u16().map_err(|_| Malformed)?;
        let state = match buffer.try_get_u8().map_err(|_| Malformed)? {
            0 => State::Alive,
            1 => State::Suspect,
            2 => State::Down,
            _ => return Err(Malformed),
        };
        Ok(Member::new(id, incarnation, state))
    }
}

type Detector = Foca<Life, Fixed, SplitMix, NoCustomBroadcast>;

/// The failure detector of this node.
pub(crate) struct Membership {
    foca: Detector,
    runtime: AccumulatingRuntime<Life>,
    timers: BTreeMap<(u64, u64), Timer<Life>>,
    scheduled: u64,
    known: Vec<NodeId>,
    /// When members that are not heard of are greeted next, and the first of them.
    greet_at_ms: u64,
    greeted: usize,
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

/// Small clusters hear of a death within a second, large ones within a quarter of a minute.
fn config(nodes: usize) -> Config {
    let of = |ms| Duration::from_millis(ms);
    let digits = u64::from((nodes as u64 + 1).ilog10() + 1);
    let (period_ms, rtt_ms, suspicion_ms) =
        if nodes < 10 { (200, 80, 600) } else { (1000, 500, 4000 * digits.saturating_sub(1).max(1)) };
    let three = NonZeroUsize::new(3).unwrap_or(NonZeroUsize::MIN);
    Config {
        probe_period: of(period_ms),
        probe_rtt: of(rtt_ms),
        num_indirect_probes: three,
        max_transmissions: NonZeroU8::new(4 * digits as u8).unwrap_or(NonZeroU8::MIN),
        suspect_to_down_after: of(suspicion_ms),
        remove_down_after: Some(of(3_600_000)),
        max_packet_size: NonZeroUsize::new(1400).unwrap_or(NonZeroUsize::MIN),
        notify_down_members: true,
        periodic_announce: None,
        periodic_announce_to_down_members: Some(PeriodicParams { frequency: of(5 * period_ms), num_members: three }),
        periodic_gossip: Some(PeriodicParams { frequency: of(period_ms), num_members: three }),
    }
}

impl Membership {
    /// The detector of a node at its `start`-th start, in a cluster of about `nodes`.
    pub(crate) fn new(own: NodeId, start: u64, seed: u64, nodes: usize) -> Membership {
        let life = Life { node: own.0, start: start << 16 };
        Membership {
            foca: Foca::new(life, config(nodes), SplitMix::new(seed), Fixed),
            runtime: AccumulatingRuntime::new(),
            timers: BTreeMap::new(),
            scheduled: 0,
            known: Vec::new(),
            greet_at_ms: 0,
            greeted: 0,
        }
    }

    /// Takes the members of a topology.
    pub(crate) fn set_members(&mut self, now_ms: u64, members: impl Iterator<Item = NodeId>) {
        let own = NodeId(self.foca.identity().node);
        let members: Vec<NodeId> = members.filter(|node| *node != own).collect();
        // Nothing outranks the last life of a node that has left.
        let gone = self.known.iter().filter(|node| !members.contains(node));
        let gone: Vec<_> = gone.map(|node| Member::down(Life { node: node.0, start: u64::MAX })).collect();
        // It fails only if a message cannot be encoded.
        let _ = self.foca.apply_many(gone.into_iter(), false, &mut self.runtime);
        self.known = members;
        self.greet_at_ms = now_ms;
        self.schedule(now_ms);
    }

    fn schedule(&mut self, now_ms: u64) {
        while let Some((after, timer)) = self.runtime.to_schedule() {
            self.scheduled += 1;
            let at_ms = now_ms.saturating_add(after.as_millis().min(1 << 40) as u64);
            self.timers.insert((at_ms, self.scheduled), timer);
        }
    }

    fn sent(&mut self) -> Vec<(NodeId, Vec<u8>)> {
        let mut sent = Vec::new();
        while let Some((to, bytes)) = self.runtime.to_send() {
            sent.push((NodeId(to.node), bytes.to_vec()));
        }
        sent
    }

    /// When it wants to be ticked.
    pub(crate) fn wake_at_ms(&self) -> u64 {
        let timer_ms = self.timers.first_key_value().map_or(u64::MAX >> 1, |((at_ms, _), _)| *at_ms);
        timer_ms.min(self.greet_at_ms)
    }

    /// Does what is due. Returns what is to be sent.
    pub(crate) fn tick(&mut self, now_ms: u64) -> Vec<(NodeId, Vec<u8>)> {
        while let Some(((at_ms, _), _)) = self.timers.first_key_value()
            && *at_ms <= now_ms
            && let Some((_, timer)) = self.timers.pop_first()
        {
            // Late timers are part of its design; what it cannot do it leaves.
            let _ = self.foca.handle_timer(timer, &mut self.runtime);
            self.schedule(now_ms);
        }
        if now_ms >= self.greet_at_ms {
            self.greet();
            self.greet_at_ms = now_ms + GREET_EVERY_MS;
        }
        self.sent()
    }

    /// Greets some members of the topology that are not heard of: whichever life they are in, they answer with whom
    /// they know.
    fn greet(&mut self) {
        let heard: Vec<u16> = self.foca.iter_members().map(|member| member.id().node).collect();
        let silent: Vec<u16> = self.known.iter().map(|node| node.0).filter(|node| !heard.contains(node)).collect();
        for number in 0..silent.len().min(GREETED) {
            let node = silent[(self.greeted + number) % silent.len()];
            // It fails only if a message cannot be encoded.
            let _ = self.foca.announce(Life { node, start: 0 }, &mut self.runtime);
        }
        self.greeted = self.greeted.wrapping_add(GREETED);
    }

    /// Takes a message. Returns what is to be sent, and members that are found to be down, or up again.
    #[expect(clippy::type_complexity, reason = "messages, and verdicts")]
    pub(crate) fn received(&mut self, now_ms: u64, bytes: &[u8]) -> (Vec<(NodeId, Vec<u8>)>, Vec<(NodeId, bool)>) {
        // Bytes that are no message, or one for an earlier life, change nothing.
        let _ = self.foca.handle_data(bytes, &mut self.runtime);
        self.schedule(now_ms);
        (self.sent(), self.verdicts())
    }

    /// Members that were found to be down (true) or up since it was last asked.
    pub(crate) fn verdicts(&mut self) -> Vec<(NodeId, bool)> {
        let mut verdicts = Vec::new();
        while let Some(notification) = self.runtime.to_notify() {
            match notification {
                OwnedNotification::MemberUp(life) => verdicts.push((NodeId(life.node), false)),
                OwnedNotification::MemberDown(life) => verdicts.push((NodeId(life.node), true)),
                _ => {}
            }
        }
        verdicts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three nodes in virtual time, one of which stops and starts again.
    #[test]
    fn a_death_is_known_within_a_second_and_so_is_a_return() {
        let mut nodes: Vec<Option<Membership>> = Vec::new();
        for node in 0..3 {
            let mut membership = Membership::new(NodeId(node), 1, 7 + u64::from(node), 3);
            membership.set_members(0, (0..3).map(NodeId));
            nodes.push(Some(membership));
        }
        let mut faulty = [[false; 3]; 3];
        let mut run = |nodes: &mut Vec<Option<Membership>>, from_ms: u64, to_ms: u64| {
            for now_ms in from_ms..to_ms {
                for place in 0..3 {
                    let Some(node) = &mut nodes[place] else { continue };
                    let mut sent: Vec<_> = node.tick(now_ms).into_iter().collect();
                    while let Some((to, bytes)) = sent.pop() {
                        if let Some(other) = &mut nodes[usize::from(to.0)] {
                            let (answers, verdicts) = other.received(now_ms, &bytes);
                            verdicts.into_iter().for_each(|(of, is)| faulty[usize::from(to.0)][usize::from(of.0)] = is);
                            sent.extend(answers);
                        }
                    }
                }
                for (place, node) in nodes.iter_mut().enumerate() {
                    for (other, is_faulty) in node.iter_mut().flat_map(Membership::verdicts).collect::<Vec<_>>() {
                        faulty[place][usize::from(other.0)] = is_faulty;
                    }
                }
            }
            faulty
        };
        assert_eq!(run(&mut nodes, 0, 5000), [[false; 3]; 3]);
        nodes[2] = None;
        let faulty = run(&mut nodes, 5000, 7000);
        assert!(faulty[0][2] && faulty[1][2] && !faulty[0][1]);
        let mut again = Membership::new(NodeId(2), 2, 9, 3);
        again.set_members(7000, (0..3).map(NodeId));
        nodes[2] = Some(again);
        let faulty = run(&mut nodes, 7000, 10_000);
        assert!(!faulty[0][2] && !faulty[1][2], "{faulty:?}");
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut membership = Membership::new(NodeId(0), 1, 7, 3);
        membership.set_members(0, (0..3).map(NodeId));
        let mut random = SplitMix::new(1);
        for length in 0..200usize {
            let bytes: Vec<u8> = (0..length % 60).map(|_| random.draw() as u8 % 12).collect();
            membership.received(length as u64, &bytes);
        }
    }
}
