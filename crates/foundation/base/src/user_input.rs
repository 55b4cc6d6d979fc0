//! Text that users wrote into files: TOML numbers, and the known word that a
//! mistyped one was probably meant to be.

use toml::Spanned;
use toml::de::DeValue;

/// Returns a finite number written as a decimal integer or with a point; `None` for anything else.
///
/// ```
/// use diskwright_base::user_input::toml_number;
/// let table = toml::de::DeTable::parse("a = 1_000\nb = 2.5\nc = 0x10\nd = inf\ne = '1'").unwrap();
/// let get = |key: &str| table.get_ref().get(key).and_then(toml_number);
/// assert_eq!((get("a"), get("b"), get("c"), get("d"), get("e")), (Some(1000.0), Some(2.5), None, None, None));
/// ```
pub fn toml_number(value: &Spanned<DeValue<'_>>) -> Option<f64> {
    let value = value.get_ref();
    let text = match (value.as_integer(), value.as_float()) {
        (Some(integer), _) if integer.radix() == 10 => integer.as_str(),
        (_, Some(float)) => float.as_str(),
        _ => return None,
    };
    text.replace('_', "").parse::<f64>().ok().filter(|n| n.is_finite())
}

/// Returns the word of `known` with the smallest edit distance to a mistyped word, if any is near enough.
///
/// ```
/// use diskwright_base::user_input::nearest_word;
/// assert_eq!(nearest_word("strip_unit", ["stripe_unit", "scrub"]), Some("stripe_unit"));
/// assert_eq!(nearest_word("tape", ["name", "type_of"]), None);
/// ```
pub fn nearest_word<T: AsRef<str>>(word: &str, known: impl IntoIterator<Item = T>) -> Option<T> {
    let word: String = word.chars().take(80).collect();
    // a third of a word's letters, as rustc allows: two of four letters are half, and `tape` is not a mistyped `name`
    let max_distance = word.chars().count().max(3) / 3;
    // two neighbours swapped count as one mistake
    let by_distance = known.into_iter().map(|k| (strsim::osa_distance(&word, k.as_ref()), k));
    by_distance.filter(|(d, _)| *d <= max_distance).min_by_key(|(d, _)| *d).map(|(_, k)| k)
}

/// Returns `; did you mean `busy`?` if a known word is similar, else an empty text.
pub fn did_you_mean<T: AsRef<str>>(word: &str, known: impl IntoIterator<Item = T>) -> String {
    nearest_word(word, known).map_or(String::new(), |word| format!("; did you mean `{}`?", word.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_counts_as_one_mistake_and_half_a_word_is_too_far() {
        assert_eq!(nearest_word("bsu", ["bus"]), Some("bus"));
        assert_eq!(nearest_word("shares", ["shave", "share"]), Some("share"));
        assert_eq!(nearest_word("", ["abc"]), None);
    }
}
