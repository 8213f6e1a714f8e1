//! The parameters `from` and `ack`: how many replicas keep an entity, and how many of them must answer.

use quipu_cluster::ids::Quorum;

use super::query;

/// From the parameters of a request to a cluster of so many nodes: where nothing else is said, `replicas` of them
/// keep an entity, and more than half of those that keep it answer.
///
/// # Errors
/// What is wrong, for the body of a `400`.
pub(super) fn parse(
    ack: Option<&[u8]>,
    from: Option<&[u8]>,
    (nodes, replicas): (usize, usize),
) -> Result<Quorum, String> {
    let number = |name: &str, text: Option<&[u8]>| text.map(|text| query::number(name, text)).transpose();
    let from = number("from", from)?.unwrap_or(replicas as u64);
    let ack = number("ack", ack)?.unwrap_or(from / 2 + 1);
    match (ack, from) {
        (_, 0) => Err("`from` must be at least 1".to_owned()),
        (0, _) => Err("`ack` must be at least 1".to_owned()),
        _ if from > nodes as u64 => Err(format!("`from` is {from}, and the cluster has {nodes} node(s)")),
        _ if ack > from => Err(format!("`ack` is {ack}, more than `from`, which is {from}")),
        _ => match (u8::try_from(ack), u8::try_from(from)) {
            (Ok(ack), Ok(from)) => Ok(Quorum { ack, from }),
            _ => Err(format!("`from` is {from}, which no entity can have")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorums() {
        let parse = |ack: &str, from: &str, nodes| {
            let given = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
            super::parse(given(ack).as_deref(), given(from).as_deref(), nodes)
        };
        for (nodes, ack) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)] {
            assert_eq!(parse("", "", (nodes, nodes)), Ok(Quorum { ack, from: nodes as u8 }));
        }
        assert_eq!(parse("", "", (10, 3)), Ok(Quorum { ack: 2, from: 3 }), "growth changes no default");
        assert_eq!(parse("", "3", (5, 5)), Ok(Quorum { ack: 2, from: 3 }));
        assert_eq!(parse("1", "3", (3, 3)), Ok(Quorum { ack: 1, from: 3 }));
        let wrong = [("0", ""), ("", "0"), ("3", "2"), ("1", "4"), ("4", ""), ("x", ""), ("-1", ""), ("", "1.5")];
        for (ack, from) in wrong {
            assert!(parse(ack, from, (3, 3)).is_err(), "ack={ack} from={from}");
        }
        assert!(parse("", "300", (300, 3)).is_err());
    }
}
