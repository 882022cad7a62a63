//! Division of a long text into parts for several threads, and into sections.
//!
//! In: text, the wanted number of parts or length of sections, and a test for places where text can be split without
//! changing its ids. Out: at most that many parts, of similar length. Cost: a test of a few places.

/// Minimum length of a part that is worth a thread.
const MIN_PART: usize = 1 << 18;

/// Maximum distance between a split and the place that would make the parts equally long.
const REACH: usize = 1 << 14;

/// The parts of `text`, in order; together they are the text.
pub(super) fn parts(text: &str, count: usize, is_place: impl Fn(usize) -> bool) -> Vec<&str> {
    let count = count.min(text.len() / MIN_PART).max(1);
    split(text, count, text.len() / count, is_place)
}

/// The sections of `text`, in order, of about `length` bytes; together they are the text.
pub(super) fn sections(text: &str, length: usize, is_place: impl Fn(usize) -> bool) -> Vec<&str> {
    split(text, text.len().div_ceil(length), length, is_place)
}

/// At most `count` parts of `text`, each but the first beginning shortly after a multiple of `length` bytes.
fn split(text: &str, count: usize, length: usize, is_place: impl Fn(usize) -> bool) -> Vec<&str> {
    let mut parts = Vec::with_capacity(count);
    let mut start = 0;
    for nth in 1..count {
        let even = length * nth;
        let place = (even..even + REACH).find(|&at| text.is_char_boundary(at) && is_place(at));
        if let Some(end) = place {
            parts.push(&text[start..end]);
            start = end;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The characters before and after a place within a text.
pub(super) fn around(text: &str, at: usize) -> Option<(char, char)> {
    Some((text[..at].chars().next_back()?, text[at..].chars().next()?))
}

#[cfg(test)]
mod tests {
    use super::{MIN_PART, parts};

    #[test]
    fn parts_are_of_a_length_and_the_whole_text() {
        let text = "word ".repeat(MIN_PART);
        let is_place = |at: usize| text.as_bytes()[at] == b' ';
        let found = parts(&text, 4, is_place);
        assert_eq!(found.concat(), text);
        assert_eq!(found.len(), 4);
        assert!(found[1..].iter().all(|part| part.starts_with(' ')));
        assert!(found.iter().all(|part| part.len() / 100 == text.len() / 400));
    }

    #[test]
    fn short_text_and_text_without_places_stay_whole() {
        let text = "é".repeat(MIN_PART);
        assert_eq!(parts(&text, 4, |_| false), [&text[..]]);
        assert_eq!(parts(&text[..2000], 4, |_| true), [&text[..2000]]);
        assert_eq!(parts(&text, 1, |_| true), [&text[..]]);
        // Two parts are worth a thread each, and they begin with a character.
        assert_eq!(parts(&text, 9, |_| true).len(), 2);
    }
}
