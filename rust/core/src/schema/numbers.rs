//! Regular expressions for the spellings of numbers within bounds.
//!
//! In: `minimum`, `maximum` and the exclusive two. Out: regular expressions that a number matches.
//! Numbers with bounds are written without an exponent.

use serde_json::{Map, Number, Value};

use crate::expression::{Expression, Part};

/// An integer of at most 18 digits.
pub(super) const INTEGER: &str = "-?(0|[1-9][0-9]{0,17})";
/// A number that JSON writes.
pub(super) const NUMBER: &str = r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?";
/// A number without an exponent.
const DECIMAL: &str = r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?";

/// Digits before or after the point of a bound.
const MAX_DIGITS: i32 = 40;

/// The language of numbers with the bounds of a schema.
///
/// # Errors
/// A bound with too many digits, by its keyword.
pub(super) fn numbers(
    is_integer: bool,
    keys: &Map<String, Value>,
) -> Result<Expression, &'static str> {
    let mut also = Vec::new();
    for (keyword, is_least, is_exclusive) in [
        ("minimum", true, false),
        ("exclusiveMinimum", true, true),
        ("maximum", false, false),
        ("exclusiveMaximum", false, true),
    ] {
        if let Some(Value::Number(number)) = keys.get(keyword) {
            let bound = Decimal::new(number).ok_or(keyword)?;
            also.push(bound.within(is_least, is_exclusive, is_integer));
        }
    }
    let regex = match (is_integer, also.is_empty()) {
        (true, _) => INTEGER,
        (false, true) => NUMBER,
        (false, false) => DECIMAL,
    };
    Ok(Expression::part(Part::Regex { regex: regex.to_owned(), also, except: Vec::new() }))
}

/// A number by its digits, without zeros that say nothing.
struct Decimal {
    is_negative: bool,
    whole: Vec<u8>,
    fraction: Vec<u8>,
}

impl Decimal {
    fn new(number: &Number) -> Option<Self> {
        let text = number.to_string();
        let is_negative = text.starts_with('-');
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
        let exponent: i32 = exponent.trim_start_matches('+').parse().ok()?;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let digits = whole.bytes().chain(fraction.bytes()).filter(u8::is_ascii_digit);
        let mut digits: Vec<u8> = digits.map(|digit| digit - b'0').collect();
        let mut point = digits.len() as i32 - fraction.len() as i32 + exponent;
        if !(-MAX_DIGITS..=MAX_DIGITS).contains(&point) || digits.len() > MAX_DIGITS as usize {
            return None;
        }
        while point < 1 {
            digits.insert(0, 0);
            point += 1;
        }
        while digits.len() < point as usize {
            digits.push(0);
        }
        let mut fraction = digits.split_off(point as usize);
        while fraction.last() == Some(&0) {
            fraction.pop();
        }
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..zeros.min(digits.len() - 1));
        Some(Self { is_negative, whole: digits, fraction })
    }

    fn is_zero(&self) -> bool {
        self.whole == [0] && self.fraction.is_empty()
    }

    /// The numbers that are not less than a least number, or not greater than a greatest one.
    fn within(&self, is_least: bool, is_exclusive: bool, is_integer: bool) -> String {
        let fraction = if is_integer { "" } else { r"(\.[0-9]+)?" };
        let (inward, outward) = if is_least { ("", "-") } else { ("-", "") };
        let equal = self.equal(is_integer).filter(|_| !is_exclusive);
        let signed = |sign: &str, sizes: Vec<String>| -> Vec<String> {
            sizes.into_iter().map(|size| format!("{sign}{size}")).collect()
        };
        let mut all = Vec::new();
        if self.is_zero() || is_least == self.is_negative {
            // All numbers of the other sign, and those of its own that are not greater than it in size.
            let mut sizes = self.less(fraction, is_integer);
            sizes.extend(equal);
            all.extend(signed(outward, sizes));
            if self.is_zero() && is_exclusive {
                all.extend(signed(inward, self.greater(fraction, is_integer)));
            } else {
                all.push(format!("{inward}[0-9]+{fraction}"));
            }
        } else {
            let mut sizes = self.greater(fraction, is_integer);
            sizes.extend(equal);
            all.extend(signed(inward, sizes));
        }
        format!("({})", all.join("|"))
    }

    /// The sizes that are equal to this one.
    fn equal(&self, is_integer: bool) -> Option<String> {
        let whole = text(&self.whole);
        match (is_integer, self.fraction.is_empty()) {
            (true, true) => Some(whole),
            (true, false) => None,
            (false, true) => Some(format!(r"{whole}(\.0+)?")),
            (false, false) => Some(format!(r"{whole}\.{}0*", text(&self.fraction))),
        }
    }

    /// The sizes that are greater.
    fn greater(&self, rest: &str, is_integer: bool) -> Vec<String> {
        let count = self.whole.len();
        let mut all = vec![format!("[1-9][0-9]{{{count},}}{rest}")];
        for (at, &digit) in self.whole.iter().enumerate() {
            if digit < 9 {
                let before = text(&self.whole[..at]);
                let after = count - at - 1;
                all.push(format!("{before}[{}-9][0-9]{{{after}}}{rest}", digit + 1));
            }
        }
        if is_integer {
            return all;
        }
        let whole = text(&self.whole);
        for (at, &digit) in self.fraction.iter().enumerate() {
            if digit < 9 {
                let before = text(&self.fraction[..at]);
                all.push(format!(r"{whole}\.{before}[{}-9][0-9]*", digit + 1));
            }
        }
        all.push(format!(r"{whole}\.{}0*[1-9][0-9]*", text(&self.fraction)));
        all
    }

    /// The sizes that are less.
    fn less(&self, rest: &str, is_integer: bool) -> Vec<String> {
        let count = self.whole.len();
        let mut all = Vec::new();
        if count > 1 {
            all.push(format!("(0|[1-9][0-9]{{0,{}}}){rest}", count - 2));
        }
        for (at, &digit) in self.whole.iter().enumerate() {
            let least = u8::from(at == 0 && count > 1);
            if digit > least {
                let before = text(&self.whole[..at]);
                let after = count - at - 1;
                all.push(format!("{before}[{least}-{}][0-9]{{{after}}}{rest}", digit - 1));
            }
        }
        if self.fraction.is_empty() {
            return all;
        }
        let whole = text(&self.whole);
        if is_integer {
            all.push(whole);
            return all;
        }
        all.push(format!(r"{whole}(\.0+)?"));
        for (at, &digit) in self.fraction.iter().enumerate() {
            let before = text(&self.fraction[..at]);
            if at > 0 {
                all.push(format!(r"{whole}\.{before}"));
            }
            if digit > 0 {
                all.push(format!(r"{whole}\.{before}[0-{}][0-9]*", digit - 1));
            }
        }
        all
    }
}

fn text(digits: &[u8]) -> String {
    digits.iter().map(|digit| char::from(b'0' + digit)).collect()
}

#[cfg(test)]
mod tests {
    use fancy_regex::Regex;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn admits(language: &Expression, text: &str) -> bool {
        let Expression::Text(parts) = language else { panic!("a terminal") };
        let [Part::Regex { regex, also, .. }] = &parts[..] else { panic!("a regular expression") };
        let matches =
            |regex: &str| Regex::new(&format!(r"\A(?:{regex})\z")).unwrap().is_match(text).unwrap();
        matches(regex) && also.iter().all(|regex| matches(regex))
    }

    proptest! {
        #[test]
        fn numbers_within_bounds_are_those_admitted(
            is_integer: bool,
            bounds in proptest::collection::vec((0..4usize, -1200i32..1200, 0..3u32), 0..3),
            whole in -1300i64..1300,
            fraction in "|\\.[0-9]{1,3}",
        ) {
            let names = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
            let mut keys = Map::new();
            for (name, bound, shift) in bounds {
                let bound = f64::from(bound) / 10f64.powi(shift as i32);
                keys.insert(names[name].to_owned(), json!(bound));
            }
            let fraction = if is_integer { String::new() } else { fraction };
            for sign in ["", "-"] {
                let text = format!("{sign}{}{fraction}", whole.abs());
                let number: f64 = text.parse().unwrap();
                let bound = |name: usize| keys.get(names[name]).and_then(Value::as_f64);
                let expected = bound(0).is_none_or(|least| number >= least)
                    && bound(1).is_none_or(|most| number <= most)
                    && bound(2).is_none_or(|least| number > least)
                    && bound(3).is_none_or(|most| number < most);
                let language = numbers(is_integer, &keys).unwrap();
                prop_assert_eq!(admits(&language, &text), expected, "{} {:?}", text, keys);
            }
        }
    }

    #[test]
    fn bounds_are_read_by_their_digits() {
        for (bound, below, above) in [
            (json!(1e3), "999.99", "1000.01"),
            (json!(0.001), "0.0009", "0.0011"),
            (json!(1e-7), "0", "0.00000011"),
            (json!(123_456_789_012_i64), "123456789011", "123456789013"),
        ] {
            let keys = json!({"minimum": bound});
            let language = numbers(false, keys.as_object().unwrap()).unwrap();
            assert!(!admits(&language, below) && admits(&language, above), "{bound}");
        }
        assert_eq!(numbers(true, json!({"maximum": 1e300}).as_object().unwrap()), Err("maximum"));
    }
}
