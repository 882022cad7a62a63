//! A day and time, and `strftime` of it in the C locale.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// A day and time, by default the present one in UTC.
///
/// ```
/// use chatcodec::Clock;
///
/// let clock = Clock::parse_day("2026-01-31").unwrap();
/// assert_eq!(clock.format("%d %B %Y").as_deref(), Some("31 January 2026"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The year, such as 2026.
    pub year: i64,
    /// The month, 1 to 12.
    pub month: u32,
    /// The day of the month, 1 to 31.
    pub day: u32,
    /// Hour, minute and second.
    pub time: (u32, u32, u32),
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Clock {
    /// The present time in UTC.
    pub fn utc() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (days, seconds) = ((now / 86_400) as i64, (now % 86_400) as u32);
        // Years begin in March here, so that a leap day is the last of its year.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = (of_year - (153 * month + 2) / 5 + 1) as u32;
        let month = if month < 10 { month + 3 } else { month - 9 } as u32;
        let year = year + era * 400 + i64::from(month <= 2);
        Self { year, month, day, time: (seconds / 3600, seconds / 60 % 60, seconds % 60) }
    }

    /// A day at midnight, from `2026-01-31`.
    pub fn parse_day(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut part = || parts.next()?.parse::<u32>().ok();
        let (year, month, day) = (part()?, part()?, part()?);
        let is_day = (1..=12).contains(&month) && (1..=31).contains(&day) && parts.next().is_none();
        is_day.then_some(Self { year: i64::from(year), month, day, time: (0, 0, 0) })
    }

    /// Days since the beginning of the year, from 0.
    fn day_of_year(&self) -> i64 {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let month = before.get((self.month as usize).wrapping_sub(1)).copied().unwrap_or(0);
        month + i64::from(leap && self.month > 2) + i64::from(self.day) - 1
    }

    /// Day of the week, from 0 for Sunday.
    fn weekday(&self) -> usize {
        let before = self.year - 1;
        let days = before * 365 + before.div_euclid(4) - before.div_euclid(100)
            + before.div_euclid(400)
            + self.day_of_year();
        (days + 1).rem_euclid(7) as usize
    }

    /// The text of a `strftime` format; `None` for a directive that is not supported.
    pub fn format(&self, format: &str) -> Option<String> {
        let (hour, minute, second) = self.time;
        let month = MONTHS.get((self.month as usize).wrapping_sub(1))?;
        let weekday = DAYS[self.weekday()];
        let mut text = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                text.push(c);
                continue;
            }
            let mut directive = chars.next()?;
            let is_padded = directive != '-';
            if !is_padded {
                directive = chars.next()?;
            }
            let mut number = |value: u32| {
                let _ =
                    if is_padded { write!(text, "{value:02}") } else { write!(text, "{value}") };
            };
            match directive {
                'd' => number(self.day),
                'm' => number(self.month),
                'H' => number(hour),
                'I' => number((hour + 11) % 12 + 1),
                'M' => number(minute),
                'S' => number(second),
                'y' => number(self.year.rem_euclid(100) as u32),
                'j' if is_padded => {
                    let _ = write!(text, "{:03}", self.day_of_year() + 1);
                }
                _ if !is_padded => return None,
                'Y' => {
                    let _ = write!(text, "{}", self.year);
                }
                'e' => {
                    let _ = write!(text, "{:2}", self.day);
                }
                'b' | 'h' => text.push_str(&month[..3]),
                'B' => text.push_str(month),
                'a' => text.push_str(&weekday[..3]),
                'A' => text.push_str(weekday),
                'p' => text.push_str(if hour < 12 { "AM" } else { "PM" }),
                'F' => {
                    let _ = write!(text, "{}-{:02}-{:02}", self.year, self.month, self.day);
                }
                'T' => {
                    let _ = write!(text, "{hour:02}:{minute:02}:{second:02}");
                }
                'R' => {
                    let _ = write!(text, "{hour:02}:{minute:02}");
                }
                '%' => text.push('%'),
                _ => return None,
            }
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn days_as_strftime_writes_them() {
        let clock = Clock { year: 2024, month: 2, day: 29, time: (0, 5, 9) };
        let text = clock.format("%A %a %d %-d %e %b %B %Y %y %j %H:%M:%S %I %p %% %F %T %R");
        let expected = "Thursday Thu 29 29 29 Feb February 2024 24 060 00:05:09 12 AM % 2024-02-29 00:05:09 00:05";
        assert_eq!(text.as_deref(), Some(expected));
        assert_eq!(clock.format("%Q"), None);
        assert_eq!(clock.format("%"), None);
        assert!(Clock::utc().year >= 2024);
        assert_eq!(
            Clock::parse_day("2026-11-24").and_then(|day| day.format("%A")).as_deref(),
            Some("Tuesday")
        );
        assert_eq!(Clock::parse_day("2026-13-24"), None);
    }
}
