//! Which NIC, port and GID, and how queue pairs are made: what the variables of the C++ engine say.

use std::path::PathBuf;

use super::error::VariableError;

/// How NICs of libibverbs are chosen and used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbsOptions {
    /// Name or path of the library instead of `libibverbs.so.1`.
    pub library: Option<String>,
    /// Names of the devices that may be used, the preferred first; all if there are none.
    pub devices: Vec<String>,
    /// Number of the port; `None`: the first that is active.
    pub port: Option<u8>,
    /// Number of the GID in the port's table; `None`: the best.
    pub gid_index: Option<u8>,
    /// Class of the traffic: bits of the IP header, by which switches sort it.
    pub traffic_class: u8,
    /// Most bytes of a packet, less headers.
    pub mtu: u32,
    /// Most requests in flight on a connection.
    pub max_wr: u32,
    /// Most pieces of memory that the queue pair is made for. This crate's requests have one.
    pub max_sge: u32,
    /// Longest write whose bytes travel in the request itself.
    pub max_inline: u32,
    /// How often the NIC sends a packet again that is not acknowledged; at most 7.
    pub retry_count: u8,
    /// How many connections there are for each pair of NICs of a peer.
    pub qps_per_peer: u32,
    /// Most bytes of one request of a long transfer, if a peer is reached by several ways.
    pub slice_bytes: u64,
    /// Where the system describes its devices.
    pub sysfs: PathBuf,
    /// Whether the NIC may write payload to memory in any order, before it tells that it is done.
    pub relaxed_ordering: bool,
}

impl Default for VerbsOptions {
    fn default() -> Self {
        VerbsOptions {
            library: None,
            devices: Vec::new(),
            port: None,
            gid_index: None,
            traffic_class: 0,
            mtu: 4096,
            max_wr: 256,
            max_sge: 1,
            max_inline: 64,
            retry_count: 7,
            qps_per_peer: 1,
            slice_bytes: 64 << 10,
            sysfs: PathBuf::from("/sys"),
            relaxed_ordering: false,
        }
    }
}

impl VerbsOptions {
    /// Reads `MC_IBVERBS_PATH`, `MC_MS_FILTERS`, `MC_IB_PORT`, `MC_GID_INDEX`, `MC_IB_TC`, `MC_MTU`, `MC_MAX_WR`,
    /// `MC_MAX_SGE`, `MC_MAX_INLINE`, `MC_RETRY_CNT`, `MC_NUM_QP_PER_EP`, `MC_SLICE_SIZE` and `MC_IB_PCI_RELAXED_ORDERING` by
    /// `variable`. Empty values count as not set.
    ///
    /// # Errors
    /// The first variable with a value that it cannot have.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<VerbsOptions, VariableError> {
        let text = |name: &str| variable(name).filter(|value| !value.is_empty());
        let number = |name, wanted, fits: fn(u32) -> bool| match text(name) {
            None => Ok(None),
            Some(value) => match value.trim().parse().ok().filter(|&number| fits(number)) {
                Some(number) => Ok(Some(number)),
                None => Err(VariableError { name, value, wanted }),
            },
        };
        let byte = |number: Option<u32>| number.and_then(|number| u8::try_from(number).ok());
        let default = VerbsOptions::default();
        let (of_byte, of_port) = ("a number from 0 to 255", "a number from 1 to 255");
        let is_byte = |number| number <= 255;
        let port = number("MC_IB_PORT", of_port, |number| (1..=255).contains(&number))?;
        let traffic_class = byte(number("MC_IB_TC", of_byte, is_byte)?);
        let is_mtu = |number| [256, 512, 1024, 2048, 4096].contains(&number);
        let mtu = number("MC_MTU", "256, 512, 1024, 2048 or 4096", is_mtu)?;
        let requests = "a number from 4 to 65536";
        let max_wr = number("MC_MAX_WR", requests, |number| (4..=65_536).contains(&number))?;
        let is_sge = |number| (1..=64).contains(&number);
        let max_sge = number("MC_MAX_SGE", "a number from 1 to 64", is_sge)?;
        let max_inline = number("MC_MAX_INLINE", "a number up to 4096", |number| number <= 4096)?;
        let retry_count =
            number("MC_RETRY_CNT", "a number from 1 to 128", |number| (1..=128).contains(&number))?;
        let qps = number("MC_NUM_QP_PER_EP", "a number from 1 to 16", |number| {
            (1..=16).contains(&number)
        })?;
        let is_slice = |number| (4096..=1 << 30).contains(&number);
        let slice = number("MC_SLICE_SIZE", "a number from 4096 to 1073741824", is_slice)?;
        let order = "0, 1 or 2";
        let relaxed = number("MC_IB_PCI_RELAXED_ORDERING", order, |number| number <= 2)?;
        Ok(VerbsOptions {
            library: text("MC_IBVERBS_PATH"),
            devices: text("MC_MS_FILTERS").map_or_else(Vec::new, |names| device_names(&names)),
            port: byte(port),
            gid_index: byte(number("MC_GID_INDEX", of_byte, is_byte)?),
            traffic_class: traffic_class.unwrap_or(default.traffic_class),
            mtu: mtu.unwrap_or(default.mtu),
            max_wr: max_wr.unwrap_or(default.max_wr),
            max_sge: max_sge.unwrap_or(default.max_sge),
            max_inline: max_inline.unwrap_or(default.max_inline),
            // Three bits of the queue pair.
            retry_count: byte(retry_count).map_or(default.retry_count, |count| count.min(7)),
            qps_per_peer: qps.unwrap_or(default.qps_per_peer),
            slice_bytes: slice.map_or(default.slice_bytes, u64::from),
            sysfs: default.sysfs,
            relaxed_ordering: relaxed.is_some_and(|number| number > 0),
        })
    }

    /// Uses the devices of a list like `mlx5_0,mlx5_1`. An empty list names none, and leaves the choice as it was.
    #[must_use]
    pub fn with_devices(mut self, list: &str) -> VerbsOptions {
        let names = device_names(list);
        if !names.is_empty() {
            self.devices = names;
        }
        self
    }
}

/// The names of a list with commas between them.
fn device_names(list: &str) -> Vec<String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<VerbsOptions, VariableError> {
        VerbsOptions::from_variables(|name| {
            let value = set.iter().find(|(variable, _)| *variable == name);
            value.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn variables_of_the_cpp_engine_keep_their_meaning() {
        assert_eq!(read(&[]), Ok(VerbsOptions::default()));
        assert_eq!(read(&[("MC_GID_INDEX", "")]), Ok(VerbsOptions::default()));
        let set = [
            ("MC_IBVERBS_PATH", "/opt/lib.so"),
            ("MC_MS_FILTERS", "mlx5_1, mlx5_2,"),
            ("MC_IB_PORT", "2"),
            ("MC_GID_INDEX", "3"),
            ("MC_IB_TC", "106"),
            ("MC_MTU", "1024"),
            ("MC_MAX_WR", "1024"),
            ("MC_MAX_SGE", "4"),
            ("MC_MAX_INLINE", "256"),
            ("MC_RETRY_CNT", "9"),
            ("MC_NUM_QP_PER_EP", "2"),
            ("MC_SLICE_SIZE", "131072"),
            ("MC_IB_PCI_RELAXED_ORDERING", "2"),
        ];
        let expected = VerbsOptions {
            library: Some("/opt/lib.so".into()),
            devices: vec!["mlx5_1".into(), "mlx5_2".into()],
            port: Some(2),
            gid_index: Some(3),
            traffic_class: 106,
            mtu: 1024,
            max_wr: 1024,
            max_sge: 4,
            max_inline: 256,
            retry_count: 7,
            qps_per_peer: 2,
            slice_bytes: 131_072,
            sysfs: "/sys".into(),
            relaxed_ordering: true,
        };
        assert_eq!(read(&set), Ok(expected.clone()));
        assert_eq!(expected.clone().with_devices("").devices, expected.devices);
        assert_eq!(expected.with_devices("a,b").devices, ["a", "b"]);
    }

    #[test]
    fn a_value_that_a_variable_cannot_have_is_named() {
        let check = |name, value: &str, wanted| {
            let error = VariableError { name, value: value.to_owned(), wanted };
            assert_eq!(read(&[(name, value)]), Err(error));
        };
        check("MC_IB_PORT", "0", "a number from 1 to 255");
        check("MC_GID_INDEX", "256", "a number from 0 to 255");
        check("MC_GID_INDEX", "auto", "a number from 0 to 255");
        check("MC_IB_TC", "-1", "a number from 0 to 255");
        check("MC_MTU", "1500", "256, 512, 1024, 2048 or 4096");
        check("MC_MAX_WR", "1", "a number from 4 to 65536");
        check("MC_MAX_SGE", "0", "a number from 1 to 64");
        check("MC_RETRY_CNT", "0", "a number from 1 to 128");
        check("MC_NUM_QP_PER_EP", "0", "a number from 1 to 16");
        check("MC_SLICE_SIZE", "100", "a number from 4096 to 1073741824");
    }
}
