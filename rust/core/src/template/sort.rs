//! A stable sort whose comparison may fail, and need not be an order.

use super::value::Outcome;

/// The places of so many items in order. `is_less` says whether the item at one place comes before another's; items
/// that it does not order stay as they are. Cost: `n log n` comparisons, and none after one that fails.
pub(super) fn sorted(
    count: usize,
    is_less: impl Fn(usize, usize) -> Outcome<bool>,
) -> Outcome<Vec<usize>> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut merged = Vec::with_capacity(count);
    let mut width = 1;
    while width < count {
        merged.clear();
        for pair in order.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let (Some(one), Some(other)) = (left.first(), right.first()) {
                // The right one comes first only if it is less, so equal items keep their order.
                if is_less(*other, *one)? {
                    merged.push(*other);
                    right = &right[1..];
                } else {
                    merged.push(*one);
                    left = &left[1..];
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut order, &mut merged);
        width *= 2;
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::sorted;
    use crate::template::error::Problem;

    #[test]
    fn a_sort_is_stable_and_agrees_with_that_of_the_library() {
        for count in 0..200_usize {
            let items: Vec<usize> = (0..count).map(|at| (at * 7919) % 17).collect();
            let mut expected: Vec<usize> = (0..count).collect();
            expected.sort_by_key(|at| items[*at]);
            assert_eq!(sorted(count, |one, other| Ok(items[one] < items[other])), Ok(expected));
        }
    }

    #[test]
    fn a_comparison_that_is_no_order_ends_and_one_that_fails_fails() {
        let order = sorted(100, |one, other| Ok((one + other) % 3 == 0)).unwrap_or_default();
        let mut places = order.clone();
        places.sort_unstable();
        assert_eq!(places, (0..100).collect::<Vec<_>>());
        assert!(sorted(2, |_, _| Err(Problem::value("no order"))).is_err());
    }
}
