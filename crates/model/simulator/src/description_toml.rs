//! TOML descriptions are read by the [`toml_reader`](diskwright_base::toml_reader) of the base crate.

pub use diskwright_base::toml_reader::{
    Problem, Problems, TomlFields as DescriptionFields, TomlSource as DescriptionSource, TomlValue as DescriptionValue,
    did_you_mean, quantity, toml_number,
};
