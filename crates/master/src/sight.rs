//! Remembers over which connection each client pinged last. When that one ends, the client is out of sight.

use std::collections::HashMap;

use mooncake_types::ClientId;

/// The number of a connection, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(u64);

/// The connection of each client's last ping. An entry goes with its connection, which bounds their number.
#[derive(Debug, Default)]
pub(crate) struct Pings {
    numbered: u64,
    last: HashMap<ClientId, ConnectionId>,
}

impl Pings {
    /// The id of a new connection.
    pub(crate) fn number(&mut self) -> ConnectionId {
        self.numbered += 1;
        ConnectionId(self.numbered)
    }

    /// Notes a ping of a client over this connection. Returns whether its previous ping came over it too.
    pub(crate) fn note(&mut self, client: ClientId, connection: ConnectionId) -> bool {
        self.last.insert(client, connection) == Some(connection)
    }

    /// Notes the end of a client's connection. Returns whether its last ping came over it.
    pub(crate) fn end(&mut self, client: ClientId, connection: ConnectionId) -> bool {
        let was_last = self.last.get(&client) == Some(&connection);
        if was_last {
            self.last.remove(&client);
        }
        was_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_the_connection_of_the_last_ping_counts() {
        let (alice, bob) = (ClientId(1), ClientId(2));
        let mut pings = Pings::default();
        let [first, second, other] = [0; 3].map(|_| pings.number());
        assert!(!pings.end(alice, first), "no ping came over it");
        assert!(!pings.note(alice, first));
        assert!(!pings.note(alice, second));
        assert!(pings.note(alice, second), "the last came over the same");
        assert!(!pings.note(bob, other));
        assert!(!pings.end(alice, first), "a later ping came over another");
        assert!(!pings.end(alice, other), "it is another client's");
        assert!(pings.end(alice, second));
        assert!(!pings.end(alice, second), "it ends once");
        assert!(pings.end(bob, other));
        assert!(pings.last.is_empty());
    }
}
