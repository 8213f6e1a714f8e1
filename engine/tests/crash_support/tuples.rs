//! Properties of the tuple decoder for any bytes.

use quipu::tuple;

/// Decoding never panics, what decodes encodes to the same bytes, and tuples sort as their bytes do.
pub(crate) fn examine(bytes: &[u8]) {
    for index in 0..4 {
        let _ = tuple::element_at(bytes, index);
    }
    let mut size = 0;
    for part in tuple::parts(bytes) {
        size += part.bytes().len();
        if let (true, Ok(element)) = (part.is_descending(), part.element()) {
            let mut again = Vec::new();
            tuple::encode_descending_into(&element, &mut again);
            assert_eq!(again, part.bytes());
        }
    }
    assert!(size <= bytes.len());
    let Ok(elements) = tuple::decode(bytes) else { return };
    assert_eq!(tuple::encode(&elements), bytes);
    for (index, element) in elements.iter().enumerate() {
        assert_eq!(tuple::element_at(bytes, index).as_ref(), Some(element));
    }
    assert!(tuple::range(&elements).contains(&bytes.to_vec()));
    let (front, back) = elements.split_at(elements.len() / 2);
    let (front_bytes, back_bytes) = (tuple::encode(front), tuple::encode(back));
    assert_eq!([&front_bytes[..], &back_bytes].concat(), bytes);
    assert_eq!(front_bytes.cmp(&back_bytes), front.cmp(back));
}
