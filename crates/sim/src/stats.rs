//! Numbers out of many measurements.

use std::time::Duration;

/// The middle one.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which a share of all values lies.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Milliseconds, as a number that can be divided.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let mut values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!((median(&mut values), quantile(&mut values, 0.99), quantile(&mut values, 1.0)), (50.0, 99.0, 100.0));
        assert!(median(&mut []).is_nan());
    }
}
