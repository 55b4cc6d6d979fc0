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

/// Returns the word of `known` with the smallest edit distance to a mistyped word, if one is near enough.
///
/// ```
/// use diskwright_base::user_input::nearest_word;
/// assert_eq!(nearest_word("strip_unit", ["stripe_unit", "scrub"]), Some("stripe_unit"));
/// assert_eq!(nearest_word("tape", ["name", "type_of"]), None);
/// ```
pub fn nearest_word<T: AsRef<str>>(word: &str, known: impl IntoIterator<Item = T>) -> Option<T> {
    let word: Vec<char> = word.chars().take(80).collect();
    // a third of a word's letters, as rustc allows: two of four letters are half, and `tape` is not a mistyped `name`
    let max_distance = word.len().max(3) / 3;
    let by_distance = known.into_iter().map(|k| (edit_distance(&word, k.as_ref()), k));
    by_distance.filter(|(d, _)| *d <= max_distance).min_by_key(|(d, _)| *d).map(|(_, k)| k)
}

/// Edit distance of two words: letters to insert, remove, replace, or swap with their neighbour (which
/// counts as one).
fn edit_distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut min = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                min = min.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = min;
        }
    }
    rows[a.len()][b.len()]
}

/// Returns `; did you mean `busy`?` where a known word is near, else an empty text.
pub fn did_you_mean<T: AsRef<str>>(word: &str, known: impl IntoIterator<Item = T>) -> String {
    nearest_word(word, known).map_or(String::new(), |near| format!("; did you mean `{}`?", near.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_swaps_as_one() {
        let d = |a: &str, b: &str| edit_distance(&a.chars().collect::<Vec<_>>(), b);
        assert_eq!(d("abvoe", "above"), 1);
        assert_eq!(d("", "abc"), 3);
        assert_eq!(d("shares", "share"), 1);
    }
}
