//! Descriptions written in TOML are read by base's [`toml_reader`](diskwright_base::toml_reader).

pub use diskwright_base::toml_reader::{
    Problem, Problems, TomlFields as DescriptionFields, TomlSource as DescriptionSource, TomlValue as DescriptionValue,
    did_you_mean, number, quantity,
};
