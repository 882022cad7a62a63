//! Hashes of recent texts: a cache keeps a text when its hash comes a second time.

/// Number of groups of hashes.
const GROUPS: usize = 1024;

/// Number of hashes in a group: texts that come in turns and share a group are all remembered.
const GROUP: usize = 4;

/// A part of each hash, in the group that another part of it says; 16 KiB, from the first text on.
#[derive(Default)]
pub(super) struct Seen(Vec<[u32; GROUP]>);

impl Seen {
    /// Whether a text with this hash was seen lately; records it.
    pub(super) fn comes_again(&mut self, hash: u64) -> bool {
        self.0.resize(GROUPS, [0; GROUP]);
        let group = &mut self.0[hash as usize % GROUPS];
        let tag = (hash >> 32) as u32;
        let place = group.iter().position(|&seen| seen == tag);
        group[..=place.unwrap_or(GROUP - 1)].rotate_right(1);
        group[0] = tag;
        place.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::{GROUP, Seen};

    #[test]
    fn a_text_comes_again_the_second_time() {
        let mut seen = Seen::default();
        assert_eq!([(); 3].map(|()| seen.comes_again(1 << 32)), [false, true, true]);
        assert!(!seen.comes_again(2 << 32));
    }

    #[test]
    fn texts_in_turns_are_remembered_though_they_share_a_group() {
        let mut seen = Seen::default();
        let hashes = |count: usize| (1..=count as u64).map(|nth| nth << 32);
        assert!(hashes(GROUP).all(|hash| !seen.comes_again(hash)));
        assert!(hashes(GROUP).all(|hash| seen.comes_again(hash)));
        assert!(hashes(GROUP + 1).all(|hash| seen.comes_again(hash) == (hash >> 32 <= 4)));
        assert!(!seen.comes_again(1 << 32), "the one that was seen first makes room");
    }
}
