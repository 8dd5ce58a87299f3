//! Old viewers: many questions, answers that nobody reads, dumps.

use super::{MIXED, mixed_reports, query, response};
use crate::support::old_client::{OldClient, request};
use crate::support::server::TestServer;
use crate::support::wait_until;
use std::io::{Read, Write};
use std::time::Duration;
use ttmem_event::legacy::{Generation, Request, RequestKind, Totals};

#[test]
fn ten_questions_at_once_are_answered_in_order() {
    let server = TestServer::start(&[]);
    for generation in Generation::ALL {
        let mut client = OldClient::connect(&server.socket(), generation);
        let questions: Vec<Request> = (100..110).map(query).collect();
        client.send_all(&questions);
        for device in 100..110 {
            let nothing = response(generation, device, &Totals::default());
            assert_eq!(client.reply(), nothing);
        }
    }
}

#[test]
fn questions_between_reports_see_what_was_reported_before_them() {
    let server = TestServer::start(&[]);
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    let requests: Vec<Request> = (0..200)
        .flat_map(|id| [request(RequestKind::Alloc, 0, 10, 0, id), query(0)])
        .collect();
    client.send_all(&requests);
    for count in 1..=200 {
        let totals = Totals {
            dram: 10 * count,
            ..Totals::default()
        };
        assert_eq!(client.reply(), response(Generation::G4, 0, &totals));
    }
}

#[test]
fn questions_on_hundreds_of_connections_are_all_answered_in_order() {
    let server = TestServer::start(&[]);
    let questions: Vec<Request> = (100..164).map(query).collect();
    let mut clients: Vec<OldClient> = (0..300)
        .map(|_| OldClient::connect(&server.socket(), Generation::G4))
        .collect();
    for client in &mut clients {
        client.send_all(&questions);
    }
    // Some leave while they wait for their turn, some send nothing more.
    let mut number = 0;
    clients.retain(|client| {
        number += 1;
        if number % 7 == 0 {
            let half = client.stream.shutdown(std::net::Shutdown::Write);
            half.expect("it is connected");
        }
        number % 5 != 0
    });
    for client in &mut clients {
        for device in 100..164 {
            let nothing = response(Generation::G4, device, &Totals::default());
            assert_eq!(client.reply(), nothing);
        }
    }
    let mut late = OldClient::connect(&server.socket(), Generation::G4);
    assert_eq!(late.totals(0), Totals::default());
}

#[test]
fn connections_that_never_read_their_answers_do_not_silence_their_process() {
    let server = TestServer::start(&[]);
    let mut bytes = Vec::new();
    for _question in 0..4000 {
        query(0).encode(Generation::G4, &mut bytes);
    }
    // Each with how much of its questions is sent: what does not fit is sent later.
    let mut deaf: Vec<(OldClient, usize)> = (0..20)
        .map(|_| (OldClient::connect(&server.socket(), Generation::G4), 0))
        .collect();
    for (client, _sent) in &deaf {
        client.stream.set_nonblocking(true).expect("a socket");
    }
    // More than a connection may leave unread: they are closed one by one.
    wait_until("the server has had enough of them", || {
        for (client, sent) in &mut deaf {
            // Full or closed.
            let count = client.stream.write(&bytes[*sent..]).unwrap_or(0);
            *sent = (*sent + count) % bytes.len();
        }
        server.log().matches("does not read its answers").count() >= 12
    });
    drop(deaf);
    let mut late = OldClient::connect(&server.socket(), Generation::G4);
    assert_eq!(late.totals(0), Totals::default());
    wait_until("they are gone", || {
        server.status()["server"]["clients"] == 1
    });
}

#[test]
fn twenty_thousand_questions_of_a_slow_reader_harm_nobody_else() {
    let server = TestServer::start(&[]);
    let mut other = OldClient::connect(&server.socket(), Generation::G3);
    other.send(&request(RequestKind::Alloc, 0, 99, 0, 1));
    assert_eq!(other.totals(0).dram, 99);
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    let mut writer = client.stream.try_clone().expect("the stream twice");
    let asking = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        for question in 0..20_000 {
            query(question % 1000).encode(Generation::G4, &mut bytes);
        }
        // Fails if the server has had enough of it.
        let _closed = writer.write_all(&bytes);
    });
    let mut answered = 0;
    let mut reply = [0; 144];
    while answered < 20_000 && client.stream.read_exact(&mut reply).is_ok() {
        let device = answered % 1000;
        let totals = Totals {
            dram: if device == 0 { 99 } else { 0 },
            ..Totals::default()
        };
        assert_eq!(
            reply[..],
            response(Generation::G4, device, &totals)[..],
            "answer {answered}"
        );
        answered += 1;
        if answered % 100 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    asking.join().expect("the asking thread");
    if answered < 20_000 {
        wait_until("the log says why it was closed", || {
            server.log().contains("it does not read its answers")
        });
    }
    assert_eq!(
        other.totals(0).dram,
        99,
        "the other's connection still works"
    );
}

#[test]
fn a_viewer_that_never_reads_is_closed_alone() {
    let server = TestServer::start(&[]);
    let mut sender = OldClient::connect(&server.socket(), Generation::G4);
    sender.send_all(&mixed_reports(0));
    let mut viewer = OldClient::connect(&server.socket(), Generation::G4);
    let mut question = Vec::new();
    query(0).encode(Generation::G4, &mut question);
    let many = question.repeat(1000);
    // Until the server has had enough; a sender would block at the latest when its buffer is full.
    while viewer.stream.write_all(&many).is_ok() {}
    wait_until("the log says why it was closed", || {
        server.log().contains("it does not read its answers")
    });
    assert_eq!(
        sender.totals(0),
        MIXED,
        "the sender's connection still works"
    );
}

#[test]
fn viewers_that_leave_before_their_answer_harm_nobody() {
    let server = TestServer::start(&[]);
    let mut sender = OldClient::connect(&server.socket(), Generation::G4);
    sender.send_all(&mixed_reports(0));
    for generation in Generation::ALL.into_iter().cycle().take(400) {
        let mut viewer = OldClient::connect(&server.socket(), generation);
        viewer.send_all(&[query(0), query(0), query(0)]);
    }
    for generation in Generation::ALL {
        // Leaves while its only question waits to be believed whole.
        OldClient::connect(&server.socket(), generation).send(&query(0));
    }
    assert_eq!(sender.totals(0), MIXED);
    wait_until("only the sender's connection is left", || {
        server.status()["server"]["clients"] == 1
    });
}

#[test]
fn dumps_are_printed_on_the_servers_log() {
    let server = TestServer::start(&[]);
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    client.send_all(&mixed_reports(0));
    client.send(&request(RequestKind::DumpRemaining, 0, 0, 0, 0));
    client.send(&request(RequestKind::DumpKernels, 0, 0, 0, 0));
    assert_eq!(client.totals(0), MIXED, "and the sender goes on");
    let me = std::process::id();
    for line in [
        "Total tracked allocations: 4".to_owned(),
        format!("- Buffer 0x1000: 8.38861e+06 KB (PID {me}, ref_count=1)"),
        format!("- CB 0x5000: 4.88281 KB (PID {me}, local)"),
        "Total remaining buffers: 4".to_owned(),
        "DUMP_REMAINING complete.".to_owned(),
        "Kernel ID: 0x6000".to_owned(),
        "DUMP_KERNELS complete.".to_owned(),
    ] {
        wait_until(&line, || server.log().contains(&line));
    }
}
