//! One RPC connection: reads all bytes that have arrived, answers all requests in them, writes once.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mooncake_calls::{CallPart, Stage};
use mooncake_connection::AsyncInbox;
use mooncake_connection::codec::{Awaited, BadFrame};
use mooncake_memory::PrivateWhile;
use mooncake_types::{
    Access, ClientId, ErrorCode, LogLimiter, MountSegment, Reply, Request, Rights, Scan, limits,
};
use mooncake_wire::{Header, Kind, trace_of};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::accept::Peer;
use crate::handshake::{self, Rejected};
use crate::leadership::{Authority, NotRecorded};
use crate::long_frames::HeldBytes;
use crate::metrics::Operation;
use crate::owner::Deposed;
use crate::reach;
use crate::refuse::{self, malformed, refuse};
use crate::scan;
use crate::shell::Shell;
use crate::sight::ConnectionId;

/// Replies are written once they have grown to this, in bytes. One reply may be longer.
const WRITE_BYTES: usize = 256 << 10;

/// How long one connection is served before others get their turn, whether its requests came together or not.
const TURN: Duration = Duration::from_micros(500);

/// A peer that takes no bytes for this long is cut off.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The frames that a master takes.
const REQUEST: Awaited<'static> = Awaited::any_of(&[Kind::Request]);

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// The peer closed it, or the master stops.
    Closed,
    /// Another master leads, or may lead.
    Deposed,
    /// The peer was silent for too long, or took too long to send a frame.
    Idle,
    /// Its host has too much half sent.
    TooMuch,
    /// The socket failed.
    Io(io::Error),
    /// The peer sent something that is no request.
    Malformed { request_id: u64, message: String },
}

impl From<BadFrame> for End {
    fn from(error: BadFrame) -> Self {
        let message = match &error {
            BadFrame::OtherKind { header, .. } => {
                format!("a {:?} frame is not for a master", header.kind)
            }
            error => error.to_string(),
        };
        End::Malformed { request_id: error.request_id(), message }
    }
}

/// Serves a connection until it ends.
pub(crate) async fn run(shell: Rc<Shell>, stream: TcpStream, peer: Peer) {
    let admin_port = shell.config.metrics_port;
    let (inbox, output) = (AsyncInbox::default(), Vec::new());
    let (access, served) = (Access::of(Rights::NONE), Duration::ZERO);
    let (half_since, held) = (None, HeldBytes::of(&shell.long_frames, peer.host()));
    let mut connection =
        Connection { shell, stream, inbox, output, access, served, half_since, held };
    // Dropped before the stream. Otherwise a child process could keep the connection open after this one died.
    let private = PrivateWhile::open(&connection.stream);
    let client = match connection.admit(peer).await {
        Ok(client) => client,
        Err(Rejected::Gone) => return debug!(%peer, "closed without a HELLO"),
        Err(Rejected::Http2(first)) => {
            debug!(%peer, "speaks HTTP/2");
            let Connection { shell, mut stream, .. } = connection;
            drop(private);
            return match &shell.http2 {
                Some(door) => door.pass(stream, first),
                None => handshake::refuse_http(&mut stream, peer, admin_port).await,
            };
        }
        Err(Rejected::Http) => {
            return handshake::refuse_http(&mut connection.stream, peer, admin_port).await;
        }
        Err(Rejected::Refused { request_id, refusal }) => {
            refuse::log(peer, refusal.code, &refusal.message);
            return refuse(&mut connection.stream, request_id, &refusal).await;
        }
    };
    debug!(%peer, %client, "connected");
    let number = connection.shell.owner.borrow_mut().connect();
    let end = connection.serve(client, number).await;
    // A leader that stops closes its connections, and no node goes out of sight by that.
    if !connection.shell.is_stopping() {
        connection.shell.owner.borrow_mut().disconnect(number, client);
        connection.shell.rearm();
    }
    match end {
        End::Closed => debug!(%peer, %client, "disconnected"),
        End::Deposed => debug!(%peer, %client, "closed: another master leads"),
        End::Idle => debug!(%peer, %client, "closed: nothing came for too long"),
        End::TooMuch => {
            static SAID: LogLimiter<()> = LogLimiter::new();
            if let Some(further) = SAID.admit((), Instant::now()) {
                warn!(%peer, further, "closed: too many long requests have arrived only in part");
            }
        }
        End::Io(error) => debug!(%peer, %client, %error, "lost"),
        End::Malformed { request_id, message } => {
            debug!(%peer, %client, message, "refused");
            refuse(&mut connection.stream, request_id, &malformed(message)).await;
        }
    }
}

/// How often a waiting client's tasks are asked for again: some become possible with time.
const TASKS_INTERVAL: Duration = Duration::from_millis(250);

/// A request that may have to wait before it is answered.
struct Waiting {
    part: CallPart,
    message: mooncake_wire::RequestMessage,
}

struct Connection {
    shell: Rc<Shell>,
    stream: TcpStream,
    inbox: AsyncInbox,
    output: Vec<u8>,
    /// What the client may do.
    access: Access,
    /// How long this connection was served since others got their turn.
    served: Duration,
    /// Since when a part of a frame is held.
    half_since: Option<Instant>,
    held: HeldBytes,
}

impl Connection {
    async fn admit(&mut self, peer: Peer) -> Result<ClientId, Rejected> {
        let shell = Rc::clone(&self.shell);
        let given_up = Rc::new(Notify::new());
        let address = peer.host().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let (place, another) = shell.greeting.borrow_mut().take(address, Rc::clone(&given_up));
        another.iter().for_each(|end| end.notify_one());
        let greeting = handshake::greet(&shell.config, &mut self.stream, &mut self.inbox);
        let greeting = tokio::select! {
            biased;
            greeting = greeting => greeting,
            () = given_up.notified() => Err(Rejected::Gone),
            () = shell.stopped() => Err(Rejected::Gone),
        };
        shell.greeting.borrow_mut().give_back(place);
        let greeting = greeting?;
        let owner = shell.owner.borrow();
        if owner.authority() == Authority::Over {
            return Err(Rejected::Gone);
        }
        greeting.welcome(&owner.meta, &mut self.output);
        self.access = greeting.access;
        Ok(greeting.client)
    }

    async fn serve(&mut self, client: ClientId, number: ConnectionId) -> End {
        loop {
            match self.answer_all(client, number).await {
                Ok(()) => {}
                Err(End::Deposed) => return End::Deposed,
                Err(end) => {
                    // Sends the replies to earlier requests.
                    let _ = self.flush().await;
                    return end;
                }
            }
            self.shell.request_poller.on_answered();
            match self.receive().await {
                Ok(0) if self.inbox.held().is_empty() => return End::Closed,
                Ok(0) => {
                    let len = self.inbox.held().len();
                    let message = format!("the connection ended {len} bytes into a frame");
                    return End::Malformed { request_id: 0, message };
                }
                Ok(_) => self.shell.request_poller.on_arrival(),
                Err(end) => return end,
            }
        }
    }

    /// Waits for bytes.
    async fn receive(&mut self) -> Result<usize, End> {
        let shell = Rc::clone(&self.shell);
        let held = self.inbox.held().len();
        if !self.held.set(held) {
            return Err(End::TooMuch);
        }
        self.half_since = (held > 0).then(|| self.half_since.unwrap_or_else(Instant::now));
        // A frame has so long to arrive as a whole, in however many pieces it comes.
        let frame_timeout = Duration::from_millis(shell.config.frame_timeout_ms);
        let idle = async {
            match (self.half_since, shell.config.idle_timeout_ms) {
                (Some(since), _) => sleep(frame_timeout.saturating_sub(since.elapsed())).await,
                (None, 0) => std::future::pending().await,
                (None, ms) => sleep(Duration::from_millis(ms)).await,
            }
        };
        tokio::select! {
            biased;
            filled = self.inbox.fill(&mut self.stream) => filled.map_err(End::Io),
            () = shell.stopped() => Err(End::Closed),
            () = idle => Err(End::Idle),
        }
    }

    /// Answers every frame that has arrived, and writes the replies.
    async fn answer_all(&mut self, client: ClientId, number: ConnectionId) -> Result<(), End> {
        let mut begun = Instant::now();
        loop {
            let Some((header, body)) = self.inbox.next_frame(&REQUEST)? else { break };
            self.half_since = None;
            if let Some(waiting) = self.answer(client, number, &header, body)? {
                self.answer_later((client, number), &waiting).await?;
            }
            let over = self.served + begun.elapsed() >= TURN;
            if over || self.output.len() >= WRITE_BYTES {
                self.flush().await.map_err(End::Io)?;
            }
            if over {
                yield_now().await;
                (self.served, begun) = (Duration::ZERO, Instant::now());
            }
        }
        self.served += begun.elapsed();
        self.flush().await.map_err(End::Io)
    }

    /// Answers a request, unless it may have to wait.
    fn answer(
        &mut self,
        client: ClientId,
        number: ConnectionId,
        header: &Header,
        body: Bytes,
    ) -> Result<Option<Waiting>, End> {
        let request_id = header.request_id;
        let part = CallPart { request_id, trace: trace_of(header, &body) };
        let unreadable = |error: mooncake_wire::DecodeError| {
            let message = format!("the request cannot be read: {error}");
            End::Malformed { request_id, message }
        };
        let message = mooncake_wire::decode_request(body).map_err(unreadable)?;
        let request: Request<'_> = message.request().map_err(unreadable)?;
        let is_allowed =
            self.access.rights().include(request.needs()) && self.access.covers(&request);
        if !is_allowed {
            refuse::log_denied(client, &self.access, request.needs());
            let denied = Reply::Refused(ErrorCode::PermissionDenied);
            mooncake_wire::encode_reply(&mut self.output, request_id, &denied);
            return Ok(None);
        }
        let may_wait = match &request {
            Request::MountSegment(_) => self.shell.owner.borrow().leads(),
            Request::FetchTasks { wait_ms, .. } => *wait_ms > 0,
            Request::Scan(scan) => scan.pattern.is_some(),
            _ => false,
        };
        if may_wait {
            return Ok(Some(Waiting { part, message }));
        }
        self.handle(client, number, part, &request)?;
        if let Request::Ping { unreachable, .. } = &request {
            reach::doubt(&self.shell, unreachable);
        }
        Ok(None)
    }

    fn handle(
        &mut self,
        client: ClientId,
        number: ConnectionId,
        part: CallPart,
        request: &Request<'_>,
    ) -> Result<(), End> {
        let from = (client, part);
        let reply = self.shell.owner.borrow_mut().handle_over(number, from, request);
        let reply = reply.map_err(|Deposed| End::Deposed)?;
        mooncake_wire::encode_reply(&mut self.output, part.request_id, &reply);
        Ok(())
    }

    /// Answers a request that may have to wait.
    async fn answer_later(
        &mut self,
        from: (ClientId, ConnectionId),
        waiting: &Waiting,
    ) -> Result<(), End> {
        // Earlier replies need not wait.
        self.flush().await.map_err(End::Io)?;
        let request = waiting.message.request().expect("it was read before");
        match &request {
            Request::MountSegment(mount) => self.mount(from, waiting.part, &request, mount).await,
            Request::FetchTasks { wait_ms, .. } => {
                let wait = Duration::from_millis((*wait_ms).min(limits::MAX_TASK_WAIT_MS).into());
                self.fetch_tasks(from, waiting.part, &request, wait).await
            }
            Request::Scan(scan @ Scan { pattern: Some(pattern), .. }) => {
                self.scan(from.0, waiting.part, (scan, pattern)).await
            }
            _ => unreachable!("no other request waits"),
        }
    }

    /// Answers a request for tasks, once there are some or its time is over.
    async fn fetch_tasks(
        &mut self,
        (client, number): (ClientId, ConnectionId),
        part: CallPart,
        request: &Request<'_>,
        wait: Duration,
    ) -> Result<(), End> {
        let shell = Rc::clone(&self.shell);
        let until = Instant::now() + wait;
        let told = shell.task_waiters.join(client);
        let answered = loop {
            let news = told.notified();
            let from = (client, part);
            let reply = shell.owner.borrow_mut().handle_over(number, from, request);
            let Ok(reply) = reply else { break Err(End::Deposed) };
            let is_empty = matches!(&reply, Reply::TasksFetched(tasks) if tasks.orders.is_empty());
            let left = until.saturating_duration_since(Instant::now());
            if !is_empty || left.is_zero() {
                mooncake_wire::encode_reply(&mut self.output, part.request_id, &reply);
                break Ok(());
            }
            shell.rearm();
            tokio::select! {
                biased;
                () = news => {}
                () = sleep(left.min(TASKS_INTERVAL)) => {}
                () = shell.stopped() => break Err(End::Closed),
            }
        };
        shell.task_waiters.leave(client, told);
        answered
    }

    /// Answers a scan, once its keys are matched.
    async fn scan(
        &mut self,
        client: ClientId,
        part: CallPart,
        scan: (&Scan<'_>, &str),
    ) -> Result<(), End> {
        let shell = Rc::clone(&self.shell);
        let begun = Instant::now();
        let reply = tokio::select! {
            biased;
            reply = scan::answer(&shell, client, scan) => reply,
            () = shell.stopped() => return Err(End::Closed),
        };
        let reply = reply.map_err(|Deposed| End::Deposed)?;
        let name = || (Operation::of(&Request::Scan(*scan.0)).name(), 1);
        shell.owner.borrow().calls.handled(part, (begun.elapsed(), &[]), name);
        mooncake_wire::encode_reply(&mut self.output, part.request_id, &reply);
        Ok(())
    }

    /// Answers a mount, once its address was tried and the changes before it are durable.
    async fn mount(
        &mut self,
        (client, number): (ClientId, ConnectionId),
        part: CallPart,
        request: &Request<'_>,
        segment: &MountSegment<'_>,
    ) -> Result<(), End> {
        let shell = Rc::clone(&self.shell);
        let (id, endpoint) = (segment.id, segment.endpoint);
        let begun = Instant::now();
        let prepare = async {
            let tried = reach::before_mount(&shell.config, segment).await;
            let connected = begun.elapsed();
            (tried, shell.prepare(segment).await, connected)
        };
        let (tried, prepared, connected) = tokio::select! {
            biased;
            prepared = prepare => prepared,
            () = shell.stopped() => return Err(End::Closed),
        };
        let took = begun.elapsed();
        let stages = [(Stage::Connection, connected), (Stage::Record, took - connected)];
        let name = || (Operation::MountSegment.name(), 1);
        shell.owner.borrow().calls.handled(part, (took, &stages), name);
        if let Err(error) = prepared {
            let code = match error {
                NotRecorded::Late => ErrorCode::PersistentFail,
                NotRecorded::Full => ErrorCode::UnavailableInCurrentStatus,
            };
            let reply = Reply::Done(Err(code));
            mooncake_wire::encode_reply(&mut self.output, part.request_id, &reply);
            return Ok(());
        }
        self.handle(client, number, part, request)?;
        if shell.owner.borrow().meta.endpoint(id).is_some() {
            reach::note(&shell, id, endpoint, tried);
        }
        Ok(())
    }

    /// Writes the replies. The state machine may have set a timer for them.
    async fn flush(&mut self) -> io::Result<()> {
        self.shell.rearm();
        if self.output.is_empty() {
            return Ok(());
        }
        let written = timeout(WRITE_TIMEOUT, self.stream.write_all(&self.output)).await;
        self.output.clear();
        self.output.shrink_to(WRITE_BYTES);
        written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}
