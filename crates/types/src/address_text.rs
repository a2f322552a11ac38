/// An address as logs, errors and `/health` show it: without the user name and the password that may precede its host,
/// as in `redis://user:password@host`. A password may contain any character, so this drops everything up to the last
/// `@`.
#[must_use]
pub fn without_password(text: &str) -> String {
    let Some((before, host)) = text.rsplit_once('@') else { return text.to_owned() };
    match before.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://...@{host}"),
        None => format!("...@{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (text, shown) in [
            ("redis://:pw@host:6379/1", "redis://...@host:6379/1"),
            ("redis://user:p@,/w@host", "redis://...@host"),
            (":pw@host:1", "...@host:1"),
            ("http://u:p@a:1,http://u:p@b:2", "http://...@b:2"),
            ("redis://host:6379", "redis://host:6379"),
            ("etcd://a:1;b:2", "etcd://a:1;b:2"),
            ("10.0.0.1:50051", "10.0.0.1:50051"),
            ("", ""),
        ] {
            assert_eq!(without_password(text), shown, "{text}");
        }
    }
}
