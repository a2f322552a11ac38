//! A TCP forwarder that a test can cut and mend.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Forwards connections from its own port to another, unless it is cut.
pub(crate) struct Way {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    open: Vec<TcpStream>,
}

impl Way {
    pub(crate) fn to(port: u16) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let own = listener.local_addr().expect("bound").port();
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let mut state = shared.lock().expect("no panic");
                // A connection to a cut forwarder is closed at once.
                if !state.is_cut {
                    let _ = lead(&near, port).map(|streams| state.open.extend(streams));
                }
            }
        });
        Way { port: own, state }
    }

    /// Closes all connections, and refuses new ones until [`Way::mend`].
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.is_cut = true;
        for stream in state.open.drain(..) {
            // The stream may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn mend(&self) {
        self.state.lock().expect("no panic").is_cut = false;
    }
}

/// Copies bytes in both directions, each on its own thread, until either end closes.
fn lead(near: &TcpStream, port: u16) -> io::Result<[TcpStream; 2]> {
    let far = TcpStream::connect(("127.0.0.1", port))?;
    for (mut from, mut to) in
        [(near.try_clone()?, far.try_clone()?), (far.try_clone()?, near.try_clone()?)]
    {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok([near.try_clone()?, far])
}
