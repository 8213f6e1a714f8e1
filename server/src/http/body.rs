//! The body of a request, read as it comes: one that is too long is refused with 413, and those that are being received
//! take no more memory together than [`HttpLimits::flight_bytes_max`](super::HttpLimits::flight_bytes_max).

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};

use super::answer::{self, Refusal};
use super::limits::{Pulse, Taken};
use super::node::Node;

/// Bodies up to here are not counted against the bytes in flight: the number of requests bounds them.
const SMALL_BODY_BYTES: usize = 16 << 10;

/// Reads a value, and what a long one takes of the bytes in flight, which is given back when it is dropped. What is
/// long is counted as it comes, so that no client claims room with a header alone.
pub(super) async fn read(node: &Node, pulse: &Pulse, mut body: Incoming) -> Result<(Bytes, Vec<Taken>), Refusal> {
    let limit = node.limits.value_bytes_max;
    let too_long = || {
        let reason = format!("the value is longer than the limit of {limit} bytes");
        Box::new(answer::text(StatusCode::PAYLOAD_TOO_LARGE, reason))
    };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_long());
    }
    let mut taken = Vec::new();
    let (mut first, mut whole, mut stepped_bytes) = (Bytes::new(), Vec::new(), 0);
    while let Some(frame) = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await {
        // It ended early, or its chunks are malformed: the connection is of no more use, and hyper closes it.
        let frame =
            frame.map_err(|error| Box::new(answer::bad_request(format!("the body cannot be read: {error}"))))?;
        let Ok(bytes) = frame.into_data() else { continue };
        let so_far = first.len() + whole.len();
        if so_far + bytes.len() > limit {
            return Err(too_long());
        }
        if so_far + bytes.len() > SMALL_BODY_BYTES {
            let Some(more) = node.flight_bytes.take(bytes.len()) else {
                return Err(Box::new(answer::overloaded("too many bytes of values are being received")));
            };
            taken.push(more);
        }
        // A body that trickles is as good as none.
        if so_far + bytes.len() >= stepped_bytes + SMALL_BODY_BYTES {
            stepped_bytes = so_far + bytes.len();
            pulse.step();
        }
        // Most bodies come in one piece, which is kept as it is.
        if so_far == 0 {
            first = bytes;
        } else {
            if whole.is_empty() {
                whole.extend_from_slice(&std::mem::take(&mut first));
            }
            whole.extend_from_slice(&bytes);
        }
    }
    Ok((if whole.is_empty() { first } else { whole.into() }, taken))
}
