//! In which order to write pieces down, so that a packer finds in each what it has just seen: nearest neighbours, one after the
//! other. Which pieces have how much in common is told by the runs of bytes that both have.

use std::collections::HashMap;

/// Bytes of a run: about two instructions.
const RUN: usize = 5;
/// A run that more pieces have says nothing about who is like whom, and takes long to look through.
const SHARED_MAX: usize = 300;

/// The places of the pieces, each beside one that is like it; it begins with the first.
pub(crate) fn alike(pieces: &[&[u8]]) -> Vec<usize> {
    let runs: Vec<Vec<&[u8]>> = pieces.iter().map(|piece| runs(piece)).collect();
    let mut having: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (place, runs) in runs.iter().enumerate() {
        runs.iter().for_each(|run| having.entry(run).or_default().push(place));
    }
    let mut left: Vec<bool> = vec![true; pieces.len()];
    let mut order = Vec::with_capacity(pieces.len());
    let mut next = (!pieces.is_empty()).then_some(0);
    while let Some(place) = next {
        left[place] = false;
        order.push(place);
        // One that is like none of those left is followed by the first of them.
        next = nearest(&runs, &having, &left, place).or_else(|| left.iter().position(|left| *left));
    }
    order
}

/// The different runs of a piece, in order.
fn runs(piece: &[u8]) -> Vec<&[u8]> {
    let mut runs: Vec<&[u8]> = piece.windows(RUN).collect();
    runs.sort_unstable();
    runs.dedup();
    runs
}

/// Who of those left has most in common with a piece. What few have counts for more; a long piece has much in common with
/// everybody, and has to have more.
fn nearest(runs: &[Vec<&[u8]>], having: &HashMap<&[u8], Vec<usize>>, left: &[bool], place: usize) -> Option<usize> {
    let mut common: HashMap<usize, f64> = HashMap::new();
    for others in runs[place].iter().map(|run| &having[run]).filter(|others| others.len() <= SHARED_MAX) {
        let rare = 1.0 / (others.len() as f64).sqrt();
        others.iter().filter(|other| left[**other]).for_each(|other| *common.entry(*other).or_default() += rare);
    }
    let close = |other: usize, common: f64| common / (runs[other].len() as f64 + 20.0).sqrt();
    // By place where two are as close: the same module is packed in the same way everywhere.
    let ranked = common.into_iter().map(|(other, common)| (close(other, common), std::cmp::Reverse(other)));
    ranked.max_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))).map(|(_, other)| other.0)
}
