use mooncake_types::{Epoch, limits};
use serde::{Deserialize, Serialize};

/// Longest text of a holder that is read, in bytes.
pub(crate) const MAX_HOLDER_BYTES: usize = 4096;

/// The leader, as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderView {
    /// Where the leader serves, `host:port`.
    pub address: String,
    /// The epoch under which it began to lead.
    pub epoch: Epoch,
}

/// The text that a leader writes at the place that all candidates compete for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) address: String,
    pub(crate) epoch: u64,
    /// Random for each attempt, so that no two attempts are alike, even of one process.
    pub(crate) token: String,
}

impl Holder {
    pub(crate) fn view(&self) -> LeaderView {
        LeaderView { address: self.address.clone(), epoch: Epoch(self.epoch) }
    }

    pub(crate) fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Decodes a holder.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn decode(text: &[u8]) -> Result<Self, String> {
        if text.len() > MAX_HOLDER_BYTES {
            return Err(format!("it has {} bytes, and names no leader", text.len()));
        }
        let holder: Self = serde_json::from_slice(text)
            .map_err(|error| format!("it names no leader of this program ({error})"))?;
        let is_address =
            !holder.address.is_empty() && holder.address.len() <= limits::MAX_NAME_BYTES;
        match is_address && holder.epoch > 0 {
            true => Ok(holder),
            false => Err("it names a leader without an address or an epoch".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_comes_back_from_its_text() {
        let holder = Holder { address: "h:1".into(), epoch: 3, token: "t".into() };
        assert_eq!(Holder::decode(holder.encode().as_bytes()), Ok(holder));
    }

    #[test]
    fn what_is_no_holder_is_refused_with_the_reason() {
        let long = format!(r#"{{"address":"{}","epoch":1,"token":"t"}}"#, "h".repeat(600));
        for (text, reason) in [
            ("", "no leader of this program"),
            ("10.0.0.1:50051", "no leader of this program"),
            (r#"{"address":"h:1","epoch":-1,"token":"t"}"#, "no leader of this program"),
            (r#"{"address":"","epoch":1,"token":"t"}"#, "without an address or an epoch"),
            (r#"{"address":"h:1","epoch":0,"token":"t"}"#, "without an address or an epoch"),
            (&long, "without an address or an epoch"),
            (&" ".repeat(5000), "it has 5000 bytes"),
        ] {
            let refused = Holder::decode(text.as_bytes()).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
