//! Logs to stderr, and traces to a collector if one is configured. Installed once per process, by its `main`.

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::config::{ConfigError, LogFormat, Telemetry};

/// Keeps telemetry running. Call [`Guard::flush`] last, when everything else has stopped.
#[derive(Debug)]
#[must_use = "traces that nobody flushes are lost"]
pub struct Guard {
    provider: Option<SdkTracerProvider>,
}

impl Guard {
    /// Sends the remaining traces and ends the export.
    pub async fn flush(self) {
        let Some(provider) = self.provider else { return };
        // `shutdown` blocks until the collector has answered or its time limit is over.
        let ended = tokio::task::spawn_blocking(move || provider.shutdown()).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// Starts logging and, if configured, the export of traces. Needs a runtime.
///
/// # Errors
/// Fails if the filter or the endpoint cannot be used, or if logging was already started.
pub fn install(config: &Telemetry) -> Result<Guard, ConfigError> {
    let filter = log_filter(config.log_filter.as_deref().unwrap_or("info"))?;
    let provider = config.otlp_endpoint.as_deref().map(provider).transpose()?;
    let logs = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let logs = match config.log_format {
        LogFormat::Text => logs.boxed(),
        LogFormat::Json => logs.json().flatten_event(true).boxed(),
    };
    // Spans of requests have the level `debug`, so that they cost nothing without a collector.
    let traces = provider.as_ref().map(|provider| {
        let spans = Targets::new().with_target("flovyn", LevelFilter::DEBUG);
        tracing_opentelemetry::layer().with_tracer(provider.tracer("flovyn")).with_filter(spans)
    });
    tracing_subscriber::registry()
        .with(logs.with_filter(filter))
        .with(traces)
        .try_init()
        .map_err(|error| ConfigError::new(format!("logging cannot be started: {error}")))?;
    Ok(Guard { provider })
}

/// The filter for log lines. It states the most detailed level that it lets through as a hint. More detailed events
/// then cost only a comparison, and the libraries under every request have hundreds of them.
fn log_filter(directives: &str) -> Result<impl Filter<Registry> + use<>, ConfigError> {
    let filter = EnvFilter::try_new(directives).map_err(|error| {
        ConfigError::new(format!("telemetry.log_filter is '{directives}': {error}; use for example 'info'"))
    })?;
    // This applies whatever the filter says: at `debug`, `tokio_postgres` logs the parameters of statements, which
    // are payloads and keys.
    let is_discreet = |metadata: &Metadata<'_>| {
        *metadata.level() <= Level::INFO || !metadata.target().starts_with("tokio_postgres")
    };
    Ok(filter.and(filter_fn(is_discreet).with_max_level_hint(LevelFilter::TRACE)))
}

fn provider(endpoint: &str) -> Result<SdkTracerProvider, ConfigError> {
    if !endpoint.starts_with("http://") {
        let message = format!(
            "telemetry.otlp_endpoint is '{endpoint}': traces are sent without TLS; use http://HOST:4317"
        );
        return Err(ConfigError::new(message));
    }
    let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
    let exporter = exporter.map_err(|error| {
        let message = format!(
            "telemetry.otlp_endpoint is '{endpoint}': {error}; use for example http://127.0.0.1:4317"
        );
        ConfigError::new(message)
    })?;
    let resource = Resource::builder().with_service_name("flovyn").build();
    Ok(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_are_not_logged_are_excluded_by_the_level_hint() {
        let most_detailed = |directives| log_filter(directives).unwrap().max_level_hint();
        assert_eq!(most_detailed("info"), Some(LevelFilter::INFO));
        assert_eq!(most_detailed("warn,flovyn=debug"), Some(LevelFilter::DEBUG));
    }
}
