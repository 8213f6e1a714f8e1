//! The order of nodes for a partition, of which the first keep it: a table made once an epoch from members, weights,
//! zones and the number of partitions, the same on every node.
//!
//! Weighted rendezvous hashing (Thaler and Ravishankar, 1998; Schindelhauer and Schomaker, 2005) ranks the nodes for a
//! partition: each has `-log2(u) / weight`, `u` drawn by hashing the partition and the node's id, and the least comes
//! first. Two rules bend the ranking:
//!
//! - each place goes to a zone that has the fewest of the places before it;
//! - of the first `replicas` places a node takes 105 % of its share at most, those that rank it best. The others
//!   go on to the next in their ranking. (Deferred acceptance, Gale and Shapley, 1962: whichever proposes first, the
//!   outcome is the same, so that a node more or less moves little else. Passing over full nodes in the order of
//!   partitions moves a third more at 30 nodes.)
//!
//! Invariants:
//! 1. The order of a partition has distinct nodes. The replicas of an entity are the first `from` of it, so the set for
//!    `from = n` lies within that for `from = n + 1`.
//! 2. The table is a function of its arguments: integers only, ids and not addresses, no order of insertion.
//!
//! Costs: `nodes * partitions` hashes and logarithms, and a sort for each partition (4,096 partitions of 1,000 nodes:
//! under a second); two bytes a place. A look-up is one hash of the key and one index.
//!
//! Not here: what is moved when the table changes ([`node`](crate::node)).

use std::collections::BinaryHeap;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::ids::{NodeId, Partition};

/// The most replicas of an entity, and so the most places in an order.
pub const FROM_MAX: u8 = 32;
/// The weight of an ordinary node.
pub const WEIGHT: u32 = 100;
/// Load that a node may have, in parts of its share: 105 of 100.
const OVER_MEAN: (u64, u64) = (105, 100);
/// Sets the hashes of nodes apart from others.
const NODE_SEED: u64 = 0x706C_6163_6573;
/// Bits after the point of logarithms.
const FRACTION_BITS: u32 = 32;

/// A node that partitions may be placed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// Its rack, room or zone. Replicas are spread over them.
    pub zone: String,
    /// How much it takes, relative to others; [`WEIGHT`] is usual, 0 takes nothing.
    pub weight: u32,
}

/// The order of nodes for each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    partitions: u32,
    /// Places of each partition.
    depth: usize,
    replicas: usize,
    order: Vec<NodeId>,
}

/// How many partitions suit a cluster that begins with so many nodes: a power of two.
pub fn partitions_for(nodes: usize) -> u32 {
    match nodes {
        0..=1 => 1,
        2..=8 => 64,
        9..=32 => 256,
        _ => 4096,
    }
}

/// The partition of a key, of `partitions`, which is a power of two.
pub fn partition_of(key: &[u8], seed: u64, partitions: u32) -> Partition {
    let bits = partitions.trailing_zeros();
    let hash = xxh3_64_with_seed(key, seed);
    Partition(hash.checked_shr(64 - bits).unwrap_or(0) as u16)
}

impl Placement {
    /// Places `partitions` (a power of two, 65,536 at most) on candidates; `replicas` is what most entities have, which
    /// is what load is balanced for.
    pub fn new(candidates: &[Candidate], partitions: u32, replicas: u8) -> Placement {
        let mut candidates: Vec<&Candidate> = candidates.iter().filter(|candidate| candidate.weight > 0).collect();
        candidates.sort_unstable_by_key(|candidate| candidate.node);
        candidates.dedup_by_key(|candidate| candidate.node);
        let depth = candidates.len().min(usize::from(FROM_MAX.max(replicas)));
        let replicas = usize::from(replicas).min(depth);
        let mut matching = Matching::new(&candidates, partitions, replicas);
        matching.propose_all(partitions);
        let mut order = Vec::with_capacity(partitions as usize * depth);
        for partition in 0..partitions {
            order.extend(matching.order(partition, depth).into_iter().map(|node| candidates[node].node));
        }
        Placement { partitions, depth, replicas, order }
    }

    /// The number of partitions.
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// All partitions.
    pub fn all(&self) -> impl Iterator<Item = Partition> + use<> {
        (0..self.partitions).map(|partition| Partition(partition as u16))
    }

    /// The nodes of a partition, the first choice first.
    pub fn order(&self, partition: Partition) -> &[NodeId] {
        let start = usize::from(partition.0) * self.depth;
        self.order.get(start..start + self.depth).unwrap_or_default()
    }

    /// The replicas of entities that have `from`.
    pub fn replicas(&self, partition: Partition, from: u8) -> &[NodeId] {
        let order = self.order(partition);
        &order[..order.len().min(usize::from(from))]
    }

    /// The place of a node in a partition's order, from 0.
    pub fn place(&self, partition: Partition, node: NodeId) -> Option<usize> {
        self.order(partition).iter().position(|other| *other == node)
    }

    /// How much more the fullest node has than the mean, in thousandths (1000: nothing), for nodes of equal weight.
    pub fn imbalance_thousandths(&self) -> u64 {
        let mut loads = std::collections::BTreeMap::new();
        for partition in self.all() {
            for node in &self.order(partition)[..self.replicas] {
                *loads.entry(*node).or_insert(0u64) += 1;
            }
        }
        let total: u64 = loads.values().sum();
        let nodes = self.order.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
        loads.values().max().map_or(0, |max| max * nodes * 1000 / total.max(1))
    }

    /// How many replicas of partitions `next` puts on a node that has none here.
    pub fn moved(&self, next: &Placement) -> u64 {
        self.all()
            .map(|partition| {
                let before = &self.order(partition)[..self.replicas];
                let after = &next.order(partition)[..next.replicas];
                after.iter().filter(|node| !before.contains(node)).count() as u64
            })
            .sum()
    }
}

/// Gives out the first places of all partitions: partitions propose, nodes hold the best they were offered.
struct Matching {
    nodes: usize,
    replicas: usize,
    /// The number of each node's zone, and how many zones there are.
    zones: Vec<usize>,
    zone_count: usize,
    /// What a node may hold.
    caps: Vec<usize>,
    /// Of each partition its nodes, best first, with their scores.
    rankings: Vec<(u64, u16)>,
    /// Whether a partition has proposed to a node, by partition and place in its ranking.
    is_proposed: Vec<bool>,
    /// What each partition holds, as places in its ranking.
    held: Vec<Vec<usize>>,
    /// What each node holds, the worst on top: score, partition.
    holds: Vec<BinaryHeap<(u64, u32)>>,
}

impl Matching {
    fn new(candidates: &[&Candidate], partitions: u32, replicas: usize) -> Matching {
        let mut names: Vec<&str> = candidates.iter().map(|candidate| candidate.zone.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let zone = |candidate: &&Candidate| names.binary_search(&candidate.zone.as_str()).unwrap_or_default();
        let places = u128::from(partitions) * replicas as u128;
        let total = candidates.iter().map(|candidate| u128::from(candidate.weight)).sum::<u128>().max(1);
        let (part, whole) = OVER_MEAN;
        let seed = |candidate: &&Candidate| xxh3_64_with_seed(&candidate.node.0.to_be_bytes(), NODE_SEED);
        let seeds: Vec<u64> = candidates.iter().map(seed).collect();
        // In 65536ths, and rounded up or down by lot: else a little less for each would cost all of them a partition at
        // once when a node joins.
        let cap = |(candidate, seed): (&&Candidate, &u64)| {
            let share = (places * u128::from(candidate.weight) * u128::from(part)) << 16;
            ((share / (total * u128::from(whole)) + u128::from(seed & 0xFFFF)) >> 16).max(1) as usize
        };
        let caps = candidates.iter().zip(&seeds).map(cap).collect();
        let mut rankings = Vec::with_capacity(partitions as usize * candidates.len());
        for partition in 0..partitions {
            let start = rankings.len();
            for (node, (candidate, seed)) in candidates.iter().zip(&seeds).enumerate() {
                let draw = xxh3_64_with_seed(&partition.to_be_bytes(), *seed);
                // 64 - log2 has 39 bits: the product fits.
                rankings.push(((negative_log2(draw) << 24) / u64::from(candidate.weight), node as u16));
            }
            rankings[start..].sort_unstable();
        }
        Matching {
            nodes: candidates.len(),
            replicas,
            zones: candidates.iter().map(zone).collect(),
            zone_count: names.len(),
            caps,
            is_proposed: vec![false; rankings.len()],
            rankings,
            held: vec![Vec::new(); partitions as usize],
            holds: vec![BinaryHeap::new(); candidates.len()],
        }
    }

    fn ranking(&self, partition: u32) -> &[(u64, u16)] {
        let start = partition as usize * self.nodes;
        &self.rankings[start..start + self.nodes]
    }

    /// Has all partitions propose until each has its replicas.
    fn propose_all(&mut self, partitions: u32) {
        let mut waiting: Vec<u32> = (0..partitions).rev().flat_map(|p| std::iter::repeat_n(p, self.replicas)).collect();
        while let Some(partition) = waiting.pop() {
            let held = self.held[partition as usize].clone();
            let place = match self.next(partition, &held, true) {
                Some(place) => place,
                // All nodes of the zones that are due are full: zones come before balance.
                None => {
                    let place = self.next(partition, &held, false).expect("there are as many nodes as replicas");
                    self.held[partition as usize].push(place);
                    continue;
                }
            };
            let first = partition as usize * self.nodes;
            self.is_proposed[first + place] = true;
            let (score, node) = self.rankings[first + place];
            let node = usize::from(node);
            self.holds[node].push((score, partition));
            self.held[partition as usize].push(place);
            if self.holds[node].len() > self.caps[node]
                && let Some((_, worst)) = self.holds[node].pop()
            {
                let start = worst as usize * self.nodes;
                let rankings = &self.rankings;
                self.held[worst as usize].retain(|place| usize::from(rankings[start + place].1) != node);
                waiting.push(worst);
            }
        }
    }

    /// The best place of a partition's ranking that is in none of `held`, in a zone that has the fewest of them; only
    /// one that it has not proposed to, if `is_new`.
    fn next(&self, partition: u32, held: &[usize], is_new: bool) -> Option<usize> {
        let ranking = self.ranking(partition);
        let zone_of = |place: usize| self.zones[usize::from(ranking[place].1)];
        let mut uses = vec![0; self.zone_count];
        held.iter().for_each(|place| uses[zone_of(*place)] += 1);
        let mut has_left = vec![self.zone_count == 1; self.zone_count];
        if self.zone_count > 1 {
            (0..ranking.len()).filter(|place| !held.contains(place)).for_each(|place| has_left[zone_of(place)] = true);
        }
        let fewest = uses.iter().zip(&has_left).filter(|(_, left)| **left).map(|(uses, _)| *uses).min()?;
        let first = partition as usize * self.nodes;
        (0..ranking.len()).find(|place| {
            uses[zone_of(*place)] == fewest && !held.contains(place) && !(is_new && self.is_proposed[first + place])
        })
    }

    /// The order of a partition: what it holds first, then the rest of its ranking, each zone in turn.
    fn order(&self, partition: u32, depth: usize) -> Vec<usize> {
        let mut left = self.held[partition as usize].clone();
        left.sort_unstable();
        let ranking = self.ranking(partition);
        let zone_of = |place: usize| self.zones[usize::from(ranking[place].1)];
        let mut uses = vec![0; self.zone_count];
        let mut places = Vec::with_capacity(depth);
        while !left.is_empty() {
            let at = (0..left.len()).min_by_key(|at| (uses[zone_of(left[*at])], left[*at])).unwrap_or_default();
            let place = left.remove(at);
            uses[zone_of(place)] += 1;
            places.push(place);
        }
        while places.len() < depth {
            let Some(place) = self.next(partition, &places, false) else { break };
            places.push(place);
        }
        places.into_iter().map(|place| usize::from(ranking[place].1)).collect()
    }
}

/// `64 - log2(draw + 1)`, with [`FRACTION_BITS`] bits after the point: rounded down, the same on every machine.
fn negative_log2(draw: u64) -> u64 {
    let number = draw.max(1);
    let whole = number.ilog2();
    // The mantissa, from 1 to 2, with 63 bits after the point.
    let mut mantissa = number << (63 - whole);
    let mut fraction = 0u64;
    for _ in 0..FRACTION_BITS {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        fraction <<= 1;
        if square >> 64 != 0 {
            fraction |= 1;
            mantissa = (square >> 1) as u64;
        } else {
            mantissa = square as u64;
        }
    }
    (64 << FRACTION_BITS) - ((u64::from(whole) << FRACTION_BITS) | fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: u16) -> Vec<Candidate> {
        zoned(count, 1)
    }

    fn zoned(count: u16, zones: u16) -> Vec<Candidate> {
        (0..count)
            .map(|node| Candidate { node: NodeId(node), zone: format!("z{}", node % zones), weight: WEIGHT })
            .collect()
    }

    #[test]
    fn logarithms_are_exact_at_powers_of_two_and_close_between() {
        for bit in 1..64u64 {
            assert_eq!(negative_log2(1 << bit), (64 - bit) << FRACTION_BITS);
        }
        for draw in [3u64, 10, 12_345, u64::MAX / 3, u64::MAX] {
            let exact = 64.0 - (draw as f64).log2();
            assert!((negative_log2(draw) as f64 / f64::from(2u32).powi(32) - exact).abs() < 1e-8, "{draw}");
        }
    }

    #[test]
    fn orders_are_distinct_nested_and_blind_to_the_order_of_the_list() {
        for count in 1..9 {
            let table = Placement::new(&nodes(count), 64, 3);
            let backwards = Placement::new(&nodes(count).into_iter().rev().collect::<Vec<_>>(), 64, 3);
            assert_eq!(table, backwards);
            for partition in table.all() {
                let mut order = table.order(partition).to_vec();
                for from in 1..=count as u8 {
                    assert_eq!(table.replicas(partition, from), &order[..usize::from(from)]);
                }
                order.sort_unstable();
                order.dedup();
                assert_eq!(order.len(), usize::from(count));
            }
        }
    }

    /// A change of the table moves data of every cluster: it is a new version of the node protocol.
    #[test]
    fn the_table_is_what_it_was() {
        let table = Placement::new(&zoned(7, 3), 8, 3);
        let orders: Vec<String> = table
            .all()
            .map(|p| table.order(p).iter().take(4).map(|node| node.to_string()).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(orders, GOLDEN, "{orders:#?}");
    }

    const GOLDEN: [&str; 8] = [
        "n2 n1 n6 n0",
        "n0 n5 n1 n2",
        "n4 n2 n3 n0",
        "n4 n2 n6 n0",
        "n5 n4 n6 n2",
        "n5 n0 n1 n2",
        "n0 n2 n1 n6",
        "n0 n4 n5 n6",
    ];

    /// The figures that the choice of the number of partitions rests on (`docs/internals/cluster.md`).
    #[test]
    fn load_is_within_a_few_percent_and_a_join_moves_little_more_than_its_share() {
        // Partitions, nodes, most load (thousandths of the mean), most moved (thousandths of all replicas).
        for (partitions, count, load, moved) in
            [(64, 3, 1000, 250), (64, 5, 1050, 190), (256, 10, 1060, 105), (256, 30, 1060, 46), (4096, 300, 1080, 8)]
        {
            let table = Placement::new(&nodes(count), partitions, 3);
            let joined = Placement::new(&nodes(count + 1), partitions, 3);
            let all = u64::from(partitions) * 3;
            let share = table.moved(&joined) * 1000 / all;
            let found = table.imbalance_thousandths();
            eprintln!(
                "P {partitions}, n {count}: load {found}, moved {share}, ideal {}",
                1000 / (u64::from(count) + 1)
            );
            assert!(found <= load, "P {partitions}, n {count}: load {found}");
            assert!(share <= moved, "P {partitions}, n {count}: moved {share}");
        }
    }

    #[test]
    fn zones_come_before_balance_and_weights_are_followed() {
        let table = Placement::new(&zoned(9, 3), 256, 3);
        for partition in table.all() {
            for set in table.order(partition).chunks(3) {
                let mut zones: Vec<u16> = set.iter().map(|node| node.0 % 3).collect();
                zones.sort_unstable();
                assert_eq!(zones, [0, 1, 2], "{partition}");
            }
        }
        // A zone of one node among two of four: it has a replica of everything.
        let mut lopsided = zoned(8, 2);
        lopsided.push(Candidate { node: NodeId(8), zone: "alone".to_owned(), weight: WEIGHT });
        let table = Placement::new(&lopsided, 64, 3);
        assert!(table.all().all(|partition| table.replicas(partition, 3).contains(&NodeId(8))));
        let mut heavy = nodes(10);
        heavy[4].weight = 2 * WEIGHT;
        heavy[5].weight = 0;
        let table = Placement::new(&heavy, 4096, 3);
        let has = |node: u16| table.all().filter(|p| table.replicas(*p, 3).contains(&NodeId(node))).count();
        assert_eq!(has(5), 0);
        // Less than twice as much: no node has two replicas of a partition.
        assert!((1600..=2100).contains(&(has(4) * 1000 / has(3))), "{} {}", has(4), has(3));
    }

    #[test]
    fn keys_spread_evenly_over_partitions() {
        let mut counts = [0u32; 64];
        for key in 0..64_000u32 {
            counts[usize::from(partition_of(&key.to_be_bytes(), 7, 64).0)] += 1;
        }
        // 1000 each; the standard deviation is 31.
        assert!(counts.iter().all(|count| count.abs_diff(1000) < 160), "{counts:?}");
        assert_eq!(partition_of(b"any", 7, 1), Partition(0));
        assert!(partition_of(b"any", 7, 1 << 16).0 > 0);
    }
}
