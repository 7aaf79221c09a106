//! Sorting. The standard library's is in the page once for every kind of thing that is sorted, which is more than the things
//! are worth; this one is there once.

/// The places of so many things in order; `before` compares two of them. What is equal stays as it was.
pub fn order(count: usize, before: &dyn Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    let mut width = 1;
    while width < count {
        let mut merged = Vec::with_capacity(count);
        for start in (0..count).step_by(2 * width) {
            let (middle, end) = ((start + width).min(count), (start + 2 * width).min(count));
            let (mut left, mut right) = (start, middle);
            while left < middle || right < end {
                let later = right < end && (left == middle || before(places[right], places[left]));
                let next = if later { &mut right } else { &mut left };
                merged.push(places[*next]);
                *next += 1;
            }
        }
        places = merged;
        width *= 2;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_in_order_and_equals_stay() {
        for count in [0, 1, 2, 3, 7, 64, 1_000] {
            let keys: Vec<usize> = (0..count).map(|number| number * 7_919 % 97).collect();
            let mut wanted: Vec<usize> = (0..count).collect();
            wanted.sort_by_key(|place| keys[*place]);
            assert_eq!(order(count, &|one, other| keys[one] < keys[other]), wanted, "{count}");
        }
    }
}
