//! Requests that go out together, beside the answers they must get.

/// Requests as bytes, and for each the payload of its answer.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    requests: Vec<u8>,
    answers: Vec<u8>,
    /// Where each answer ends in `answers`.
    ends: Vec<usize>,
}

impl Batch {
    /// Forgets all requests, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.requests.clear();
        self.answers.clear();
        self.ends.clear();
    }

    /// Adds a request: `write` appends it to the first buffer and the payload of its answer to the second.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) {
        write(&mut self.requests, &mut self.answers);
        self.ends.push(self.answers.len());
    }

    /// How many requests.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes to send.
    pub(crate) fn requests(&self) -> &[u8] {
        &self.requests
    }

    /// The payload that the answer to request `number` must have.
    pub(crate) fn answer(&self, number: usize) -> Option<&[u8]> {
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.answers[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_its_answer() {
        let mut batch = Batch::default();
        batch.push(|requests, answers| {
            requests.extend(b"one");
            answers.extend(b"1");
        });
        batch.push(|requests, _| requests.extend(b"two"));
        assert_eq!((batch.requests(), batch.len()), (&b"onetwo"[..], 2));
        assert_eq!([0, 1, 2].map(|number| batch.answer(number)), [Some(&b"1"[..]), Some(&b""[..]), None]);
        batch.clear();
        assert_eq!((batch.len(), batch.answer(0)), (0, None));
    }
}
