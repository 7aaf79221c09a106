//! Walking through the versions of a document: those that are listed, and not every commit between them.

/// The versions before and after this one, of a list with the newest first. One that is not listed lies between its neighbours.
pub fn neighbours(listed: &[u32], number: u32) -> (Option<u32>, Option<u32>) {
    let earlier = listed.iter().copied().find(|other| *other < number);
    let later = listed.iter().rev().copied().find(|other| *other > number);
    (earlier, later)
}

/// What the bar over a version says of it.
pub fn version_title(number: u32, against: u32) -> String {
    match against {
        0 => format!("Version {number}, the first"),
        _ => format!("Version {number}, with what changed since version {against}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_from_one_listed_version_to_the_next() {
        let listed = [9, 4, 1];
        assert_eq!(neighbours(&listed, 9), (Some(4), None));
        assert_eq!(neighbours(&listed, 4), (Some(1), Some(9)));
        assert_eq!(neighbours(&listed, 1), (None, Some(4)));
        assert_eq!(neighbours(&listed, 6), (Some(4), Some(9)), "not listed");
        assert_eq!(neighbours(&[], 2), (None, None));
    }

    #[test]
    fn the_first_version_has_nothing_before_it() {
        assert_eq!(version_title(1, 0), "Version 1, the first");
        assert_eq!(version_title(4, 1), "Version 4, with what changed since version 1");
    }
}
