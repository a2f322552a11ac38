/// The name of the abstract socket, without the leading zero byte, which listings show as `@`.
pub(super) fn socket_name(port: u16) -> String {
    format!("mooncake_client_{port}.sock")
}
