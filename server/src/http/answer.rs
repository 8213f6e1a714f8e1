//! Answers: status, headers and a body that is whole or a stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use quipu::{Error, ErrorKind};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::limits::Taken;
use super::retry::Patience;
use super::streams::{RangeStream, ValueStream};
use crate::entities::Failure;
use crate::state::protection::EXPLANATION;

/// The body of an answer.
pub(super) enum AnswerBody {
    /// All of it, until it is taken.
    Whole(Option<Bytes>),
    /// A long value.
    Value(Box<ValueStream>),
    /// The entities of a range.
    Range(Box<RangeStream>),
    /// Pieces that another task or thread makes.
    Pieces(
        mpsc::Receiver<Result<Bytes, Error>>,
        #[expect(dead_code, reason = "gives a place back when dropped")] Taken,
    ),
    /// The next piece of one of the two, which a thread of its own reads: pages of runs are missing. And the bytes that
    /// are left of a value.
    Reading(JoinHandle<(AnswerBody, Piece)>, Option<u64>),
}

/// An answer in the place of what was asked for. Boxed: it is rare, and large.
pub(super) type Refusal = Box<Response<AnswerBody>>;

/// A piece of an answer; `None` at its end.
type Piece = Result<Option<Bytes>, Error>;

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        // Streams read memory, in steps of some 20 us. Hyper asks for more only when the socket takes it.
        let answer = self.get_mut();
        loop {
            let piece = match answer {
                AnswerBody::Whole(bytes) => Ok(bytes.take()),
                AnswerBody::Value(stream) => stream.next(Patience::Hurried),
                AnswerBody::Range(stream) => stream.next(Patience::Hurried),
                AnswerBody::Pieces(pieces, _) => match pieces.poll_recv(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(piece) => piece.transpose(),
                },
                AnswerBody::Reading(reading, _) => match Pin::new(reading).poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok((stream, piece))) => {
                        *answer = stream;
                        piece
                    }
                    Poll::Ready(Err(error)) => {
                        *answer = AnswerBody::Whole(None);
                        Err(Error::new(ErrorKind::Io, format!("the rest could not be read: {error}")))
                    }
                },
            };
            match piece {
                Err(error) if error.kind() == ErrorKind::PageFault => answer.read_patiently(),
                piece => return Poll::Ready(piece.map(|bytes| bytes.map(Frame::data)).transpose()),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Whole(bytes) => bytes.is_none(),
            AnswerBody::Value(stream) => stream.left_bytes() == 0,
            AnswerBody::Range(_) | AnswerBody::Reading(..) | AnswerBody::Pieces(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            AnswerBody::Value(stream) => SizeHint::with_exact(stream.left_bytes()),
            AnswerBody::Reading(_, Some(left_bytes)) => SizeHint::with_exact(*left_bytes),
            AnswerBody::Range(_) | AnswerBody::Reading(_, None) | AnswerBody::Pieces(..) => SizeHint::default(),
        }
    }
}

impl AnswerBody {
    /// Has the next piece read on a thread that may wait.
    fn read_patiently(&mut self) {
        let left_bytes = self.size_hint().exact();
        let mut stream = std::mem::replace(self, AnswerBody::Whole(None));
        let read = move || {
            let piece = match &mut stream {
                AnswerBody::Value(stream) => stream.next(Patience::Patient),
                AnswerBody::Range(stream) => stream.next(Patience::Patient),
                AnswerBody::Whole(_) | AnswerBody::Reading(..) | AnswerBody::Pieces(..) => Ok(None),
            };
            (stream, piece)
        };
        *self = AnswerBody::Reading(tokio::task::spawn_blocking(read), left_bytes);
    }
}

/// With no body.
pub(super) fn empty(status: StatusCode) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Whole(None));
    *response.status_mut() = status;
    response
}

/// With bytes.
pub(super) fn octets(body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response
}

/// With a text.
pub(super) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<AnswerBody> {
    typed(status, "text/plain; charset=utf-8", text)
}

/// With text of a type.
pub(super) fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Whole(Some(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// `400`, with the reason.
pub(super) fn bad_request(reason: impl Into<Bytes>) -> Response<AnswerBody> {
    text(StatusCode::BAD_REQUEST, reason)
}

/// `405`, with what is allowed.
pub(super) fn not_allowed(methods: &'static str) -> Response<AnswerBody> {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// `503`: a bound is reached; it is worth another try.
pub(super) fn overloaded(what: impl Into<Bytes>) -> Response<AnswerBody> {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, what);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// The status of a verb that was not done, and the reason.
pub(super) fn refusal_of(failure: Failure) -> (StatusCode, String) {
    match failure {
        Failure::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "too many requests are under way".to_owned()),
        Failure::Unavailable(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
        Failure::Invalid(why) => (StatusCode::BAD_REQUEST, why),
        Failure::TooLarge(what) => (StatusCode::PAYLOAD_TOO_LARGE, what),
        Failure::Engine(error) => (status_of(&error), error.to_string()),
        Failure::Full => (
            StatusCode::INSUFFICIENT_STORAGE,
            "replicas have no space for it, and none has it. Reads go on, and so do removals".to_owned(),
        ),
        Failure::NotEnoughReplicas | Failure::Contended | Failure::Long => {
            (StatusCode::GATEWAY_TIMEOUT, "Not Enough Replicas".to_owned())
        }
    }
}

/// What is answered where a verb was not done.
pub(super) fn refused(failure: Failure) -> Response<AnswerBody> {
    match refusal_of(failure) {
        (StatusCode::SERVICE_UNAVAILABLE, why) => overloaded(why),
        (status, why) => text(status, why),
    }
}

/// The database could not be read.
pub(super) fn failed(error: &Error) -> Response<AnswerBody> {
    text(status_of(error), error.to_string())
}

fn status_of(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::Full => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// `403`: the server is in protected mode.
pub(super) fn turned_away() -> Response<AnswerBody> {
    last(text(StatusCode::FORBIDDEN, EXPLANATION))
}

/// Says to a `HEAD` that there is no body: where there is one, hyper tells its length.
pub(super) fn tell_length(response: &mut Response<AnswerBody>) {
    if response.body().size_hint().exact() == Some(0) && response.status() != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
}

/// The last answer of its connection.
pub(super) fn last(mut response: Response<AnswerBody>) -> Response<AnswerBody> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// `503`: what was read is not durable, and may never be.
pub(super) fn in_doubt(error: &Error) -> Response<AnswerBody> {
    text(StatusCode::SERVICE_UNAVAILABLE, format!("what was written last may not be on disk: {error}"))
}
