//! A thread of a client: its operation, and what the operation waits for.

use std::collections::BTreeMap;

use bytes::Bytes;
use mooncake_ops::{CallError, MasterRetry, Step, is_idempotent};
use mooncake_types::{Reply, Request};

use crate::ids::{ConnId, Part, Side, Site};
use crate::member::{CALLER, EventContext, Member, RENEWER, encode};
use crate::message::Message;
use crate::net::Event;
use crate::task::Task;
use crate::transfer::Transfer;
use crate::verbs::renew;

/// How long a master may take to answer.
const CALL_US: u64 = 700_000;

/// How long an attempt to connect to a master may take.
const DIAL_US: u64 = 200_000;

/// A simulated thread.
#[derive(Default)]
pub(crate) struct Fiber {
    pub(crate) task: Option<Task>,
    /// Counts waits. A wake-up with an older number is ignored.
    generation: u64,
    wait: Wait,
    /// An idle connection to the master.
    line: Option<ConnId>,
    /// The index of the master that answered last.
    address: usize,
    retry: MasterRetry,
    pub(crate) transfer: Option<Transfer>,
    /// Connections to nodes.
    pub(crate) lanes: BTreeMap<Site, ConnId>,
}

#[derive(Default)]
enum Wait {
    /// The thread has no task, or may begin one.
    #[default]
    Nothing,
    Pause,
    Transfer,
    Call(Call),
    /// The request, which is sent again after a pause, since the master is still recovering.
    Retry(Request<'static>),
}

/// A request to the master that is under way.
struct Call {
    request: Request<'static>,
    body: Bytes,
    /// Whether the request may be sent twice.
    may_repeat: bool,
    stage: CallStage,
}

#[derive(Clone, Copy)]
enum CallStage {
    /// The request was sent on an idle connection.
    OnOld(ConnId),
    /// Connecting to a master. The number tells how many addresses were tried before.
    Dialing(ConnId, usize),
    /// The request was sent on a connection that was made for it.
    OnNew(ConnId),
}

impl CallStage {
    fn conn(self) -> ConnId {
        match self {
            Self::OnOld(conn) | Self::Dialing(conn, _) | Self::OnNew(conn) => conn,
        }
    }
}

impl Fiber {
    pub(crate) fn is_idle(&self) -> bool {
        self.task.is_none()
    }
}

impl Member {
    /// Gives a thread a task, and starts it.
    pub(crate) fn begin(&mut self, fiber: usize, task: Task, around: &mut EventContext<'_>) {
        if fiber == CALLER {
            around.run_state.begin(self.client, &task.keys);
        }
        self.fibers[fiber].task = Some(task);
        self.drive(fiber, around);
    }

    /// Wakes a thread at a moment, unless another wait begins before.
    pub(crate) fn wake_at(&mut self, fiber: usize, when_us: u64, around: &mut EventContext<'_>) {
        let fibre = &mut self.fibers[fiber];
        fibre.generation += 1;
        let (part, generation) = (Part::Fiber(fiber), fibre.generation);
        around.net.at(when_us, Event::Wake { process: self.process, part, generation });
    }

    /// Runs a thread's task until it has to wait.
    fn drive(&mut self, fiber: usize, around: &mut EventContext<'_>) {
        loop {
            let now = self.clock.tick(around.net.now_us);
            let Some(task) = self.fibers[fiber].task.as_mut() else { break };
            match task.next(now) {
                Step::Call(request) => {
                    self.fibers[fiber].retry = MasterRetry::default();
                    return self.call(fiber, request, around);
                }
                Step::Read(fetches) if fetches.is_empty() => task.on_transfer(Vec::new()),
                Step::Write(_, deposits) if deposits.is_empty() => task.on_transfer(Vec::new()),
                Step::Drop(discards) if discards.is_empty() => task.on_transfer(Vec::new()),
                Step::Wait(until) => {
                    self.fibers[fiber].wait = Wait::Pause;
                    return self.wake_at(fiber, self.clock.moment(until), around);
                }
                Step::Done => {
                    let task = self.fibers[fiber].task.take().expect("it was there");
                    self.fibers[fiber].task = task.end(self.client, now, around.run_state);
                }
                transfer => {
                    let transfer = Transfer::new(transfer, task, around.run_state);
                    self.fibers[fiber].wait = Wait::Transfer;
                    self.fibers[fiber].transfer = Some(transfer);
                    return self.begin_transfer(fiber, around);
                }
            }
        }
        self.fibers[fiber].wait = Wait::Nothing;
        self.rest(fiber, around);
    }

    /// The thread has no task. The caller renews routes, and rests for a random time.
    fn rest(&mut self, fiber: usize, around: &mut EventContext<'_>) {
        if fiber != CALLER {
            return;
        }
        self.routes.epoch = around.hosts[self.number].epoch();
        let now = self.clock.tick(around.net.now_us);
        if self.fibers[RENEWER].is_idle()
            && let Some(task) = renew(&self.routes, now, around.run_state)
        {
            self.begin(RENEWER, task, around);
        }
        let chance = &mut around.run_state.chance;
        let longest_us = around.run_state.rests_us[chance.below(5) as usize];
        let delay_us = chance.below(longest_us + 1);
        self.wake_at(CALLER, around.net.now_us + delay_us, around);
    }

    /// A wait of a thread has ended or timed out. True if the thread is idle and may get a task.
    pub(crate) fn on_wake(
        &mut self,
        fiber: usize,
        generation: u64,
        around: &mut EventContext<'_>,
    ) -> bool {
        if self.fibers[fiber].generation != generation {
            return false;
        }
        match std::mem::take(&mut self.fibers[fiber].wait) {
            Wait::Nothing => return self.fibers[fiber].is_idle(),
            Wait::Pause => self.drive(fiber, around),
            Wait::Transfer => self.fibers[fiber].wait = Wait::Transfer,
            Wait::Retry(request) => self.call(fiber, request, around),
            Wait::Call(call) => {
                around.net.close(call.stage.conn(), Side::Client);
                match call.stage {
                    CallStage::Dialing(_, tried) => self.dial(fiber, call, tried + 1, around),
                    _ => {
                        let error = CallError::TimedOut { after_ms: CALL_US / 1_000 };
                        self.answered(fiber, &call.request, Err(error), around);
                    }
                }
            }
        }
        false
    }

    fn call(&mut self, fiber: usize, request: Request<'static>, around: &mut EventContext<'_>) {
        let body = encode(&request);
        around
            .run_state
            .log
            .add(around.net.now_us, format_args!("{:?}.{fiber} asks {request:?}", self.process));
        let may_repeat = is_idempotent(&request);
        match self.fibers[fiber].line.take() {
            Some(conn) => {
                around.net.send(conn, Side::Client, Message::Request(body.clone()));
                let stage = CallStage::OnOld(conn);
                self.await_reply(fiber, Call { request, body, may_repeat, stage }, CALL_US, around);
            }
            None => {
                // `dial` replaces the stage at once.
                let stage = CallStage::OnNew(ConnId::NONE);
                self.dial(fiber, Call { request, body, may_repeat, stage }, 0, around);
            }
        }
    }

    fn await_reply(
        &mut self,
        fiber: usize,
        call: Call,
        patience_us: u64,
        around: &mut EventContext<'_>,
    ) {
        self.fibers[fiber].wait = Wait::Call(call);
        self.wake_at(fiber, around.net.now_us + patience_us, around);
    }

    /// Tries every address once, beginning with the master that answered last. `tried` addresses have failed so far.
    fn dial(&mut self, fiber: usize, call: Call, tried: usize, around: &mut EventContext<'_>) {
        let count = around.net.masters();
        if tried >= count {
            let error = CallError::Unreachable { reason: "no master answers".to_owned() };
            return self.answered(fiber, &call.request, Err(error), around);
        }
        let address = (self.fibers[fiber].address + tried) % count;
        let master = around.net.process_at(Site::Master(address));
        let client = (self.process, Part::Fiber(fiber));
        let conn = around.net.open(client, master, Message::Hello(self.client));
        let call = Call { stage: CallStage::Dialing(conn, tried), ..call };
        self.await_reply(fiber, call, DIAL_US, around);
    }

    /// A message arrived on a connection of this thread.
    pub(crate) fn on_message(
        &mut self,
        fiber: usize,
        conn: ConnId,
        message: Message,
        around: &mut EventContext<'_>,
    ) {
        let fibre = &mut self.fibers[fiber];
        if fibre.line == Some(conn) {
            // On an idle connection, only its end can arrive.
            fibre.line = None;
            return around.net.forget(conn, Side::Client);
        }
        match std::mem::take(&mut fibre.wait) {
            Wait::Call(call) if call.stage.conn() == conn => {
                self.on_call_message(fiber, call, message, around);
            }
            wait => {
                fibre.wait = wait;
                self.on_lane_message(fiber, conn, message, around);
            }
        }
    }

    fn on_call_message(
        &mut self,
        fiber: usize,
        call: Call,
        message: Message,
        around: &mut EventContext<'_>,
    ) {
        let conn = call.stage.conn();
        let unreachable = || Err(CallError::Unreachable { reason: "it broke".to_owned() });
        match (message, call.stage) {
            (Message::Welcome(epoch), CallStage::Dialing(_, tried)) => {
                around.hosts[self.number].see_epoch(epoch);
                let count = around.net.masters();
                let fibre = &mut self.fibers[fiber];
                fibre.address = (fibre.address + tried) % count;
                around.net.send(conn, Side::Client, Message::Request(call.body.clone()));
                let call = Call { stage: CallStage::OnNew(conn), ..call };
                self.await_reply(fiber, call, CALL_US, around);
            }
            (Message::Reply(body), CallStage::OnOld(_) | CallStage::OnNew(_)) => {
                self.fibers[fiber].line = Some(conn);
                around.run_state.hear(conn, self.client);
                let reply = mooncake_wire::decode_reply(body).expect("a master's reply is sound");
                self.answered(fiber, &call.request, Ok(reply), around);
            }
            (message, stage) => {
                match message {
                    Message::Close | Message::Deserted => around.net.forget(conn, Side::Client),
                    _ => around.net.close(conn, Side::Client),
                }
                match stage {
                    CallStage::Dialing(_, tried) => self.dial(fiber, call, tried + 1, around),
                    CallStage::OnOld(_) if call.may_repeat => self.dial(fiber, call, 0, around),
                    _ => self.answered(fiber, &call.request, unreachable(), around),
                }
            }
        }
    }

    /// A call has ended. The thread repeats it later, or its task goes on.
    fn answered(
        &mut self,
        fiber: usize,
        request: &Request<'static>,
        reply: Result<Reply, CallError>,
        around: &mut EventContext<'_>,
    ) {
        // A leader can change its epoch without closing a connection.
        if let Ok(Reply::Granted { results, .. }) = &reply
            && let Some(grant) = results.iter().flatten().next()
        {
            around.hosts[self.number].see_epoch(grant.version.epoch);
        }
        around
            .run_state
            .log
            .add(around.net.now_us, format_args!("{:?}.{fiber} hears {reply:?}", self.process));
        self.fibers[fiber].generation += 1;
        self.fibers[fiber].wait = Wait::Nothing;
        let now = self.clock.tick(around.net.now_us);
        if let Some(at) = self.fibers[fiber].retry.again_at(now, request, &reply) {
            self.fibers[fiber].wait = Wait::Retry(request.clone());
            return self.wake_at(fiber, self.clock.moment(at), around);
        }
        let reply = self.fibers[fiber].retry.read(reply);
        let task = self.fibers[fiber].task.as_mut().expect("it asked");
        task.on_reply(reply);
        self.drive(fiber, around);
    }

    /// All moves of a transfer have ended, and the task goes on.
    pub(crate) fn transferred(
        &mut self,
        fiber: usize,
        transfer: Transfer,
        around: &mut EventContext<'_>,
    ) {
        let fibre = &mut self.fibers[fiber];
        fibre.wait = Wait::Nothing;
        let task = fibre.task.as_mut().expect("it transfers");
        let results = transfer.finish(&mut task.buffers);
        around
            .run_state
            .log
            .add(around.net.now_us, format_args!("{:?}.{fiber} moved {results:?}", self.process));
        task.on_transfer(results);
        self.drive(fiber, around);
    }
}
