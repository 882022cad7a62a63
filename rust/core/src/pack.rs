//! Packing: items of given lengths into few bins of one size.
//!
//! In: lengths. Out: the items of each bin. Best fit decreasing: items from the longest to the shortest, each into
//! the fullest bin that has room. It takes O(n log n) time.

use std::collections::BTreeMap;

/// Packs items into bins of `size`; gives the indices of the items of each bin, in order. Items of equal length, and
/// bins with equal room, are taken in order.
///
/// # Errors
/// The index of the first item that is longer than `size`.
///
/// ```
/// assert_eq!(chatcodec::pack(&[5, 3, 2], 8), Ok(vec![vec![0, 1], vec![2]]));
/// assert_eq!(chatcodec::pack(&[5, 9], 8), Err(1));
/// ```
pub fn pack(lengths: &[usize], size: usize) -> Result<Vec<Vec<usize>>, usize> {
    if let Some(long) = lengths.iter().position(|&length| length > size) {
        return Err(long);
    }
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&item| (std::cmp::Reverse(lengths[item]), item));
    let mut bins: Vec<Vec<usize>> = Vec::new();
    // The bins by their room; of each room the newest last.
    let mut rooms: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for item in order {
        let length = lengths[item];
        let (room, bin) = match rooms.range(length..).next() {
            None => {
                bins.push(Vec::new());
                (size, bins.len() - 1)
            }
            Some((&room, _)) => {
                let Some(same) = rooms.get_mut(&room) else { continue };
                let bin = same.pop().unwrap_or_default();
                if same.is_empty() {
                    rooms.remove(&room);
                }
                (room, bin)
            }
        };
        bins[bin].push(item);
        rooms.entry(room - length).or_default().push(bin);
    }
    for bin in &mut bins {
        bin.sort_unstable();
    }
    // Bins in the order of their first items: the result follows the input.
    bins.sort_unstable();
    Ok(bins)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::pack;

    /// Best fit decreasing that looks at every bin.
    fn naive(lengths: &[usize], size: usize) -> Vec<usize> {
        let mut sorted = lengths.to_vec();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let mut rooms: Vec<usize> = Vec::new();
        for length in sorted {
            let fitting = rooms.iter_mut().filter(|room| **room >= length).min();
            match fitting {
                Some(room) => *room -= length,
                None => rooms.push(size - length),
            }
        }
        rooms.sort_unstable();
        rooms
    }

    proptest! {
        #[test]
        fn bins_are_those_of_the_naive_algorithm(
            lengths in proptest::collection::vec(0..20_usize, 0..60),
            size in 19..40_usize,
        ) {
            let bins = pack(&lengths, size).unwrap();
            let mut items: Vec<usize> = bins.concat();
            items.sort_unstable();
            prop_assert_eq!(items, (0..lengths.len()).collect::<Vec<_>>());
            let used = |bin: &Vec<usize>| bin.iter().map(|&item| lengths[item]).sum::<usize>();
            prop_assert!(bins.iter().all(|bin| used(bin) <= size));
            let mut rooms: Vec<usize> = bins.iter().map(|bin| size - used(bin)).collect();
            rooms.sort_unstable();
            prop_assert_eq!(rooms, naive(&lengths, size));
        }
    }

    #[test]
    fn a_long_item_is_refused() {
        assert_eq!(pack(&[1, 9, 10], 8), Err(1));
        assert_eq!(pack(&[], 8), Ok(vec![]));
    }
}
