//! The form of call ids: the caller's own, nine letters and digits, or a name and a number.

use crate::word::is_word_byte;

/// The form of a format's call ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IdForm {
    /// Any header word.
    Any,
    /// Nine letters and digits.
    Nine,
    /// Text, the function's name, text, and the call's number.
    Named { before: String, between: String },
    /// The call's number.
    Numbered,
}

const LENGTH: usize = 9;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

impl IdForm {
    /// Reads a form as a format file writes it.
    pub(crate) fn parse(form: &str) -> Option<Self> {
        if form == "alphanumeric9" {
            return Some(Self::Nine);
        }
        if form == "{index}" {
            return Some(Self::Numbered);
        }
        let (before, rest) = form.split_once("{name}")?;
        let between = rest.strip_suffix("{index}")?;
        let is_words = |text: &str| text.bytes().all(is_word_byte);
        let ends_name = between.starts_with(|c: char| !c.is_ascii_digit());
        (is_words(before) && is_words(between) && ends_name)
            .then(|| Self::Named { before: before.to_owned(), between: between.to_owned() })
    }

    /// Whether ids contain the function's name.
    pub(crate) fn has_name(&self) -> bool {
        matches!(self, Self::Named { .. })
    }

    /// The name in an id; the whole id, if it has another form.
    pub(crate) fn name<'i>(&self, id: &'i str) -> &'i str {
        let Self::Named { before, between } = self else { return id };
        let inner = id.strip_prefix(&**before).and_then(|rest| rest.rsplit_once(&**between));
        match inner {
            Some((name, index)) if is_number(index) && !name.is_empty() => name,
            _ => id,
        }
    }

    /// Whether an id has the form.
    pub(crate) fn is_of(&self, id: &str) -> bool {
        match self {
            Self::Numbered => is_number(id),
            form => !form.has_name() || form.name(id).len() < id.len(),
        }
    }

    /// The name in an id; the text before the name or the number after it may be missing.
    pub(crate) fn name_in<'i>(&self, id: &'i str) -> &'i str {
        let Self::Named { before, between } = self else { return id };
        if self.is_of(id) {
            return self.name(id);
        }
        match id.rsplit_once(&**between) {
            Some((name, index)) if is_number(index) && !name.is_empty() => name,
            Some(_) => id,
            None => id.strip_prefix(&**before).filter(|name| !name.is_empty()).unwrap_or(id),
        }
    }

    /// Whether an id has the name of its function in another way than the form.
    pub(crate) fn is_other(&self, id: &str, name: &str) -> bool {
        self.has_name() && id != name && self.name(id) != name
    }

    /// The name in an id: a tool's name, if one is left without the first word or the number, whatever stands between
    /// them; otherwise [`Self::name_in`].
    pub(crate) fn tool_in<'i>(&self, id: &'i str, is_tool: impl Fn(&str) -> bool) -> &'i str {
        let name = self.name_in(id);
        let Self::Named { before, .. } = self else { return name };
        if is_tool(name) {
            return name;
        }
        let word = before.trim_end_matches(|c: char| !c.is_alphanumeric());
        let is_sign = |c: char| !c.is_alphanumeric();
        let rest = id.strip_prefix(word).and_then(|rest| rest.strip_prefix(is_sign));
        let unnumbered = |id: &'i str| {
            let digits = id.trim_end_matches(|c: char| c.is_ascii_digit());
            let name = digits.strip_suffix(is_sign);
            name.filter(|_| digits.len() < id.len())
        };
        let inner = rest.filter(|_| !word.is_empty());
        let ways = [Some(id), unnumbered(id), inner, inner.and_then(unnumbered)];
        ways.into_iter().flatten().find(|name| is_tool(name)).unwrap_or(name)
    }

    /// The id of a call: the caller's id if it has the form, or one made from it and the call.
    pub(crate) fn fit(&self, given: Option<&str>, name: &str, number: usize) -> Option<String> {
        match (self, given) {
            (Self::Any, given) => given.map(str::to_owned),
            (Self::Nine, None) => None,
            (Self::Nine, Some(given)) if is_nine(given) => Some(given.to_owned()),
            (Self::Nine, Some(given)) => Some(nine_of(given)),
            (Self::Named { before, .. }, Some(given))
                if given.starts_with(&**before)
                    && self.name(given) == name
                    && given.len() > name.len() =>
            {
                Some(given.to_owned())
            }
            (Self::Numbered, Some(given)) if is_number(given) => Some(given.to_owned()),
            (Self::Numbered, _) => Some(number.to_string()),
            (Self::Named { before, between }, _) => {
                Some(format!("{before}{name}{between}{number}"))
            }
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_nine(id: &str) -> bool {
    id.len() == LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Nine letters and digits that depend on an id alone.
fn nine_of(id: &str) -> String {
    // FNV-1a: any fixed hash serves, for ids of one conversation are few.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    let mut nine = String::with_capacity(LENGTH);
    for _ in 0..LENGTH {
        nine.push(char::from(DIGITS[(hash % 62) as usize]));
        hash /= 62;
    }
    nine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_fitted_to_their_form() {
        let nine = IdForm::parse("alphanumeric9").unwrap();
        assert_eq!(nine.fit(Some("abcDEF123"), "f", 0).as_deref(), Some("abcDEF123"));
        let made = nine.fit(Some("call_1"), "f", 0).unwrap();
        assert!(is_nine(&made) && nine.fit(Some("call_2"), "f", 0) != Some(made.clone()));
        assert_eq!(nine.fit(Some("call_1"), "g", 5), Some(made));
        let numbered = IdForm::parse("{index}").unwrap();
        assert_eq!(numbered.fit(Some("call_1"), "f", 3).as_deref(), Some("3"));
        assert_eq!(numbered.fit(Some("7"), "f", 3).as_deref(), Some("7"));
        let named = IdForm::parse("functions.{name}:{index}").unwrap();
        assert_eq!(named.fit(None, "f", 3).as_deref(), Some("functions.f:3"));
        assert_eq!(named.fit(Some("functions.f:7"), "f", 3).as_deref(), Some("functions.f:7"));
        assert_eq!(named.fit(Some("functions.g:7"), "f", 3).as_deref(), Some("functions.f:3"));
        assert_eq!(named.name("functions.a:b:12"), "a:b");
        for odd in ["f:0", "functions.f", "functions.:0", "functions.f:x", ""] {
            assert_eq!(named.name(odd), odd);
        }
        let is_tool = |name: &str| ["Bash", "Bash_3"].contains(&name);
        for id in [
            "functions.Bash:2",
            "functions.Bash",
            "Bash:2",
            "Bash",
            "functions_Bash_2",
            "functions_Bash:2",
            "functions.Bash_2",
            "functions.Bash.2",
            "functions:Bash-2",
            "Bash_2",
        ] {
            assert_eq!(named.tool_in(id, is_tool), "Bash", "{id}");
        }
        for (id, name) in [
            ("functions_Bash_3", "Bash_3"),
            ("functions_Other_2", "functions_Other_2"),
            ("functionsBash", "functionsBash"),
            ("functions.é:1", "é"),
            ("2", "2"),
        ] {
            assert_eq!(named.tool_in(id, is_tool), name, "{id}");
        }
        for wrong in [
            "",
            "{name}",
            "a{index}",
            "{index}{name}",
            "{name}{index}",
            "{name}1{index}",
            "a b{name}:{index}",
        ] {
            assert_eq!(IdForm::parse(wrong), None, "{wrong}");
        }
    }
}
