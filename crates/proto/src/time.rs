//! When something happened, as a label. Order comes from `Seq`, never from here.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Microseconds since 1970-01-01 UTC; RFC 3339 in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
pub struct Timestamp(pub i64);

/// A text that is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a time is written like 2026-01-31T12:00:00Z")]
pub struct BadTimestamp;

impl std::str::FromStr for Timestamp {
    type Err = BadTimestamp;

    fn from_str(text: &str) -> Result<Self, BadTimestamp> {
        parse(text.as_bytes()).ok_or(BadTimestamp)
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A label outside of the years that can be written only comes from a damaged log; showing the epoch beats refusing
        // the event.
        let micros = if (FIRST..=LAST).contains(&self.0) { self.0 } else { 0 };
        let (days, rest) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
        let (year, month, day) = date(days);
        let (seconds, micros) = (rest / SECOND, rest % SECOND);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// Microseconds.
const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// The first and the last moment that four digits of a year can write.
const FIRST: i64 = -62_167_219_200 * SECOND;
const LAST: i64 = 253_402_300_800 * SECOND - 1;

// RFC 3339 by hand: the page of the desktop reads a time in every event, and a library for calendars was a tenth of its weight.

/// `2026-01-31T12:00:00.5+02:00`, of which the fraction may be missing. What is finer than a microsecond is dropped.
fn parse(text: &[u8]) -> Option<Timestamp> {
    let separated = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')].iter().all(|(at, is)| text.get(*at) == Some(is));
    if !separated || !matches!(text.get(10)?, b'T' | b't' | b' ') {
        return None;
    }
    let (year, month, day) = (number(text, 0..4)?, number(text, 5..7)?, number(text, 8..10)?);
    let (hour, minute, second) = (number(text, 11..13)?, number(text, 14..16)?, number(text, 17..19)?);
    let days = days(year, month, day)?;
    // A leap second is the last one of its minute.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = hour * 3_600 + minute * 60 + second.min(59);
    let (micros, rest) = fraction(text.get(19..)?)?;
    let at = days * DAY + seconds * SECOND + micros - offset_minutes(rest)? * 60 * SECOND;
    (FIRST..=LAST).contains(&at).then_some(Timestamp(at))
}

fn number(text: &[u8], place: std::ops::Range<usize>) -> Option<i64> {
    text.get(place)?.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
}

/// Microseconds after the point, if there is one, and what stands behind.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(digits) = text.strip_prefix(b".") else { return Some((0, text)) };
    let length = digits.iter().take_while(|digit| digit.is_ascii_digit()).count();
    let (digits, rest) = digits.split_at(length);
    let six = digits.iter().chain([b'0'; 6].iter()).take(6);
    (length > 0).then(|| (six.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')), rest))
}

fn offset_minutes(text: &[u8]) -> Option<i64> {
    match text {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (number(text, 1..3)?, number(text, 4..6)?);
            let offset = (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)?;
            Some(if *sign == b'-' { -offset } else { offset })
        }
        _ => None,
    }
}

/// Days since 1970-01-01. Years begin in March here, so that a leap day is the last one of its year.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    // A day that its month does not have comes back as another one.
    let (back_year, back_month, back_day) = date(days);
    let same = back_year == if month <= 2 { year + 1 } else { year } && back_month == month && back_day == day;
    (same && (1..=12).contains(&month)).then_some(days)
}

/// The inverse of `days`.
fn date(days: i64) -> (i64, i64, i64) {
    let (era, of_era) = ((days + 719_468).div_euclid(146_097), (days + 719_468).rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * march + 2) / 5 + 1)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_with_microseconds() {
        let at = Timestamp(1_767_225_600_000_123);
        assert_eq!(at.to_string(), "2026-01-01T00:00:00.000123Z");
        assert_eq!("2026-01-01T00:00:00.000123Z".parse(), Ok(at));
        assert_eq!("yesterday".parse::<Timestamp>(), Err(BadTimestamp));
    }

    /// A library judges what is written by hand.
    #[test]
    fn every_day_is_as_in_the_calendar() {
        let library = |at: i64| format!("{:.6}", jiff::Timestamp::from_microsecond(at).unwrap());
        // From the year 0 to the year 9999, on days and at moments that drift through year and day.
        let step = 13 * DAY + 7_919_000_123;
        let mut at = FIRST;
        while at < LAST - DAY {
            let written = Timestamp(at).to_string();
            assert_eq!((written.as_str(), written.parse()), (library(at).as_str(), Ok(Timestamp(at))));
            at += step;
        }
        assert_eq!(Timestamp(LAST).to_string(), "9999-12-31T23:59:59.999999Z");
    }

    #[test]
    fn other_forms_are_read_as_the_library_reads_them() {
        for text in [
            "2026-01-31T12:00:00Z",
            "2026-01-31t12:00:00z",
            "2026-01-31T12:00:00.5+02:00",
            "2024-02-29T00:00:00-11:30",
            "2026-01-31 12:00:00Z",
            "2016-12-31T23:59:60Z",
            "2026-01-31T12:00:00.123456999Z",
            "1969-12-31T23:59:59.999999Z",
        ] {
            let library = text.parse::<jiff::Timestamp>().unwrap().as_microsecond();
            assert_eq!(text.parse(), Ok(Timestamp(library)), "{text}");
        }
        for text in [
            "",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-10T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:61Z",
            "2026-01-01T00:00:00",
            "2026-01-01",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+2:00",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00Zx",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:00é",
            "2026/01/01T00:00:00Z",
            "0000-01-01T00:00:00+00:01",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(BadTimestamp), "{text}");
        }
    }
}
