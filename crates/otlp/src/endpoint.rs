use std::str::FromStr;

/// Where a collector takes spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    url: String,
}

/// The text names no collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointError;

impl Endpoint {
    /// What a right one looks like, for messages.
    pub const WANTED: &str = "a URL like http://collector:4318";

    /// The URL for spans.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// From `http://host:4318`, or the same with a path, to which `/v1/traces` is added.
impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let uri: ureq::http::Uri = text.trim().parse().map_err(|_| EndpointError)?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_http || uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
            return Err(EndpointError);
        }
        let base = text.trim().trim_end_matches('/');
        Ok(Self { url: format!("{base}/v1/traces") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_for_spans_is_added() {
        for (text, url) in [
            ("http://c:4318", "http://c:4318/v1/traces"),
            (" https://c/otlp/ ", "https://c/otlp/v1/traces"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
        ] {
            assert_eq!(text.parse::<Endpoint>().map(|it| it.url), Ok(url.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_names_no_collector_is_refused() {
        for text in ["", "c:4318", "grpc://c:4317", "http://", "http://c:4318?x=1", "/v1/traces"] {
            assert_eq!(text.parse::<Endpoint>(), Err(EndpointError), "{text}");
        }
    }
}
