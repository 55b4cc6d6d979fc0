//! Samples of metrics that carry their times: answers of Prometheus, line protocol of Telegraf, metrics of
//! OpenTelemetry. They come series by series or line by line; in order of time they are read as pages of an exporter.

mod json_documents;
mod line_protocol;
mod metric_mapping;
mod otlp;
mod query_answer;
mod sample_table;
#[cfg(test)]
mod tests;

pub(crate) use json_documents::{for_each_document, null_as_default, read_all_bytes};
pub(crate) use line_protocol::FORMAT as LINE_PROTOCOL;
pub(crate) use otlp::FORMAT as OTLP;
pub(crate) use query_answer::FORMAT as QUERY_ANSWER;
