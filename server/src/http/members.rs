//! `/v0/cluster`: the state of a node and its cluster as JSON, and changes of the members.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use serde_json::{Value as Json, json};

use super::answer::{self, AnswerBody};
use super::body;
use super::limits::Pulse;
use super::monitoring::unready;
use super::node::Node;
use super::waiting;
use crate::cluster::{ChangeOrder, ChangeRefused, ChangeReport, Cluster, LogReport, NewMember, PeerReport, Report};

/// How a node of a cluster stands, as JSON.
pub(super) fn describe(node: &Node, cluster: &Cluster) -> serde_json::Value {
    let report = cluster.report();
    let metrics = &report.metrics;
    let stats = node.server.keyspace.db().stats();
    let disk = node.server.disk_space().map(|(free, total)| json!({ "free_bytes": free, "total_bytes": total }));
    let unready = unready(node);
    json!({
        "node": report.node.0,
        "url": report.url,
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": node.server.uptime().as_secs(),
        "zone": report.zone,
        "weight": report.weight,
        "disk": disk,
        "poisoned": stats.poisoned,
        "ready": unready.is_none() && !stats.poisoned && !node.is_stopping(),
        "trouble": report.trouble,
        "unready": unready,
        "partitions_without_quorum": report.partitions_without_quorum,
        "repaired_s_ago": report.repaired_ms_ago.map(|ms| ms / 1000),
        "epoch": report.epoch,
        "partitions": report.partitions,
        "replicas": report.replicas,
        "grace_s": report.grace_ms / 1000,
        "copies_left": report.copies_left,
        "repairs_left": report.repairs_left,
        "hints": report.hints.0,
        "hint_bytes": report.hints.1,
        "entities": cluster.entities(),
        "ranges_compared": metrics.ranges_compared,
        "rows_moved": metrics.rows_moved,
        "repair_bytes": metrics.repair_bytes,
        "answered": metrics.answered,
        "not_enough_replicas": metrics.not_enough,
        "full": metrics.full,
        "restamps": metrics.restamps,
        "long_values_fetched": metrics.long_values_fetched,
        "partitions_copied": metrics.partitions_copied,
        "can_stamp": report.clocks.can_stamp,
        "clock_ahead_ms": report.clocks.ahead_ms,
        "refusals_given": refusals(metrics.refusals_given()),
        "refusals_received": refusals(metrics.refusals_received()),
        "change": report.change.as_ref().map(describe_change),
        "dead": report.dead,
        "log": report.log.as_ref().map(describe_log),
        "peers": report.peers.iter().map(|peer| describe_peer(&report, peer)).collect::<Vec<_>>(),
    })
}

fn describe_peer(report: &Report, peer: &PeerReport) -> serde_json::Value {
    json!({
        "node": peer.node.0,
        "url": peer.url,
        "connected": peer.is_connected,
        "health": format!("{:?}", peer.health).to_lowercase(),
        "usual_ms": peer.usual_ms,
        "skew_ms": report.clocks.skews_ms.iter().find(|(node, _)| *node == peer.node).map(|(_, skew_ms)| skew_ms),
        "mark": peer.mark,
        "zone": peer.zone,
        "weight": peer.weight,
        "trouble": peer.trouble,
    })
}

fn describe_change(change: &ChangeReport) -> serde_json::Value {
    json!({
        "begun": change.begun,
        "phase": format!("{:?}", change.phase).to_lowercase(),
        "come": change.come,
        "leave": change.leave,
        "waits_for": change.waits_for,
        "down": change.down,
    })
}

fn describe_log(log: &LogReport) -> serde_json::Value {
    json!({
        "leader": log.leader.map(|node| node.0),
        "term": log.term,
        "voters": log.voters.iter().map(|node| node.0).collect::<Vec<_>>(),
        "trouble": log.trouble,
    })
}

/// Counts by reason, those that are not 0.
fn refusals(counts: impl Iterator<Item = (&'static str, u64)>) -> serde_json::Value {
    counts.filter(|(_, count)| *count > 0).map(|(reason, count)| (reason.to_owned(), json!(count))).collect()
}

/// How long a change is waited for: longer than the node tries to have it agreed on.
const PATIENCE: Duration = Duration::from_secs(20);

/// Takes an order like `{"add": [{"url": "http://d:8004", "zone": "b"}], "remove": ["http://a:8001"]}`, and answers
/// when the change has begun.
pub(super) async fn change(
    node: &Arc<Node>,
    cluster: &Arc<Cluster>,
    pulse: &Pulse,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let (body, _taken) = match body::read(node, pulse, request.into_body()).await {
        Ok(body) => body,
        Err(refusal) => return *refusal,
    };
    let order = match parse(&body) {
        Ok(order) => order,
        Err(reason) => return answer::bad_request(reason),
    };
    // A mistyped address would have all wait for a node that never starts.
    match order.newcomers() {
        Ok(urls) => {
            for url in urls.iter().filter(|url| !cluster.is_member(url)) {
                if let Err(why) = waiting::ask(url).await {
                    return answer::text(StatusCode::CONFLICT, why);
                }
            }
        }
        Err(reason) => return answer::bad_request(reason),
    }
    match tokio::time::timeout(PATIENCE, cluster.change(order)).await {
        Ok(Ok(Ok(epoch))) => {
            answer::typed(StatusCode::ACCEPTED, "application/json", json!({ "epoch": epoch }).to_string())
        }
        Ok(Ok(Err(refused))) => match refused {
            ChangeRefused::Invalid(why) => answer::bad_request(why),
            ChangeRefused::Unknown(why) => answer::text(StatusCode::NOT_FOUND, why),
            ChangeRefused::Conflict(why) | ChangeRefused::NotYet(why) => answer::text(StatusCode::CONFLICT, why),
            ChangeRefused::NoAgreement(why) => answer::text(StatusCode::GATEWAY_TIMEOUT, why),
        },
        Ok(Err(_)) | Err(_) => {
            answer::text(StatusCode::GATEWAY_TIMEOUT, "the node has failed or stops; it is not known what became of it")
        }
    }
}

/// The order that a body has.
fn parse(body: &[u8]) -> Result<ChangeOrder, String> {
    let order: Json = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let Json::Object(fields) = order else { return Err("the body is not an object".to_owned()) };
    let mut order = ChangeOrder::default();
    for (name, value) in fields {
        match (name.as_str(), &value) {
            ("abort", Json::Bool(abort)) => {
                order.abort = *abort;
                continue;
            }
            ("abort", _) => return Err("`abort` is neither true nor false".to_owned()),
            ("add" | "remove" | "dead", _) => {}
            _ => return Err(format!("`{name}` is not one of `add`, `remove`, `dead` and `abort`")),
        }
        let Json::Array(items) = value else { return Err(format!("`{name}` is not a list")) };
        let url = |item: &Json| {
            item.as_str().map(str::to_owned).ok_or_else(|| format!("`{name}` has something that is not an address"))
        };
        match name.as_str() {
            "add" => order.add = items.iter().map(new_member).collect::<Result<_, _>>()?,
            "remove" => order.remove = items.iter().map(url).collect::<Result<_, _>>()?,
            _ => order.dead = items.iter().map(url).collect::<Result<_, _>>()?,
        }
    }
    Ok(order)
}

fn new_member(item: &Json) -> Result<NewMember, String> {
    let Json::Object(fields) = item else {
        return Err("a member to add is an object with a `url`".to_owned());
    };
    if let Some(name) = fields.keys().find(|name| !["url", "zone", "weight"].contains(&name.as_str())) {
        return Err(format!("`{name}` of a member is not one of `url`, `zone` and `weight`"));
    }
    let url = fields.get("url").and_then(Json::as_str).ok_or("a member to add has no `url`")?;
    let zone = match fields.get("zone") {
        None => String::new(),
        Some(zone) => zone.as_str().ok_or("a `zone` is a text")?.to_owned(),
    };
    if zone.len() > ZONE_BYTES_MAX {
        return Err(format!("a `zone` is at most {ZONE_BYTES_MAX} bytes long"));
    }
    let weight = match fields.get("weight") {
        None => None,
        Some(weight) => {
            let weight = weight.as_u64().and_then(|weight| u32::try_from(weight).ok());
            Some(weight.ok_or("a `weight` is a number from 1 to 4294967295")?)
        }
    };
    Ok(NewMember { url: url.to_owned(), zone, weight })
}

/// The longest name of a zone.
const ZONE_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_or_refused() {
        let order = parse(br#"{"add": [{"url": "http://d:1", "zone": "b", "weight": 7}], "dead": ["http://a:1"]}"#);
        let order = order.unwrap();
        let member = NewMember { url: "http://d:1".to_owned(), zone: "b".to_owned(), weight: Some(7) };
        assert_eq!((order.add, order.dead, order.remove), (vec![member], vec!["http://a:1".to_owned()], vec![]));
        assert!(parse(br#"{"abort": true}"#).is_ok_and(|order| order.abort && order.dead.is_empty()));
        for (body, why) in [
            ("", "not JSON"),
            ("[]", "not an object"),
            (r#"{"add": "http://a:1"}"#, "not a list"),
            (r#"{"add": ["http://a:1"]}"#, "an object"),
            (r#"{"add": [{"zone": "b"}]}"#, "no `url`"),
            (r#"{"add": [{"url": "http://a:1", "rack": "b"}]}"#, "`rack`"),
            (r#"{"add": [{"url": "http://a:1", "weight": -1}]}"#, "a number"),
            (r#"{"remove": [7]}"#, "not an address"),
            (r#"{"drop": []}"#, "not one of"),
            // Not that it is no list.
            (r#"{"bogus": 1}"#, "not one of"),
            (r#"{"abort": 1}"#, "neither"),
        ] {
            let refused = parse(body.as_bytes());
            assert!(refused.as_ref().is_err_and(|text| text.contains(why)), "{body}: {refused:?}");
        }
    }
}
