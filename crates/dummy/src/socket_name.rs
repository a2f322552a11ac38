/// The name of the abstract socket, without the zero in front that a listing shows as `@`.
pub(super) fn socket_name(port: u16) -> String {
    format!("mooncake_client_{port}.sock")
}
