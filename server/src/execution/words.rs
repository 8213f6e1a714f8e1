//! Words of a command that outlive the buffer that they were read into.

use std::ops::Range;

/// The words of a command that is run beside the loop.
pub struct Words {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Words {
    /// Copies of these.
    pub fn copy<'w>(words: impl Iterator<Item = &'w [u8]>) -> Words {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for word in words {
            places.push(bytes.len()..bytes.len() + word.len());
            bytes.extend_from_slice(word);
        }
        Words { bytes, places }
    }

    /// Where these lie in `input`, if all do.
    pub fn places_in<'w>(input: &[u8], words: impl Iterator<Item = &'w [u8]>) -> Option<Vec<Range<usize>>> {
        let start_of = |word: &[u8]| (word.as_ptr() as usize).checked_sub(input.as_ptr() as usize);
        words
            .map(|word| start_of(word).map(|start| start..start + word.len()))
            .collect::<Option<Vec<_>>>()
            .filter(|places| places.iter().all(|place| place.end <= input.len()))
    }

    /// Those that lie in `bytes` at these places, without a copy.
    pub fn take(bytes: Vec<u8>, places: Vec<Range<usize>>) -> Words {
        Words { bytes, places }
    }

    /// The words.
    pub fn args(&self) -> Vec<&[u8]> {
        self.places.iter().map(|place| &self.bytes[place.clone()]).collect()
    }
}
