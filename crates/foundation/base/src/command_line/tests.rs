//! Cases of command lines.

use super::*;

/// `¦` stands between the arguments; every secret is made of `Hunter2`.
const HIDDEN: &[(&str, &str)] = &[
    ("app¦--password=Hunter2", "app --password=***"),
    ("app¦--password=Hunter2 with blanks", "app --password=***"),
    ("app¦--db-password¦Hunter2¦--port¦5432", "app --db-password *** --port 5432"),
    ("app¦--password¦-Hunter2", "app --password ***"),
    ("app¦--token=Hunter2¦x", "app --token=*** x"),
    ("app¦--api-key¦Hunter2", "app --api-key ***"),
    ("java¦-Djavax.net.ssl.keyStorePassword=Hunter2¦Main", "java -Djavax.net.ssl.keyStorePassword=*** Main"),
    ("env¦PASSWORD=Hunter2¦app", "env PASSWORD=*** app"),
    ("env¦PGPASSWORD=Hunter2¦psql¦-h¦db", "env PGPASSWORD=*** psql -h db"),
    ("env¦AWS_SECRET_ACCESS_KEY=Hunter2¦aws", "env AWS_SECRET_ACCESS_KEY=*** aws"),
    ("mysql¦-uroot¦-pHunter2¦shop", "mysql -uroot -p*** shop"),
    ("/usr/bin/mysqldump¦-u¦root¦-pHunter2¦shop", "/usr/bin/mysqldump -u root -p*** shop"),
    ("sudo¦mariadb-dump¦-pHunter2", "sudo mariadb-dump -p***"),
    ("sh¦-c¦mysqldump -uroot -pHunter2 shop | gzip", "sh -c mysqldump -uroot -p*** shop | gzip"),
    ("sh¦-c¦app --password 'Hunter2 Hunter2' --port 1", "sh -c app --password ***  --port 1"),
    ("sh¦-c¦app --password='Hunter2 Hunter2' --port 1", "sh -c app --password=*** --port 1"),
    ("sshpass¦-p¦Hunter2¦ssh¦db", "sshpass -p *** ssh db"),
    ("redis-cli¦-a¦Hunter2¦info", "redis-cli -a *** info"),
    ("redis-server¦--requirepass¦Hunter2", "redis-server --requirepass ***"),
    ("curl¦-u¦me:Hunter2¦http://x", "curl -u me:*** http://x"),
    ("curl¦-ume:Hunter2¦http://x", "curl -ume:*** http://x"),
    ("curl¦--user¦me:Hunter2¦http://x", "curl --user me:*** http://x"),
    ("curl¦-H¦Authorization: Bearer Hunter2¦http://x", "curl -H Authorization: Bearer *** http://x"),
    ("curl¦-H¦Authorization: Basic Hunter2==", "curl -H Authorization: Basic ***"),
    ("curl¦-H¦X-Api-Key: Hunter2", "curl -H X-Api-Key: ***"),
    ("curl¦-HX-Auth-Token:Hunter2", "curl -HX-Auth-Token:***"),
    ("curl¦-d¦{\"user\":\"me\",\"password\":\"Hunter2\"}", "curl -d {\"user\":\"me\",\"password\":***}"),
    ("curl¦https://x/y?token=Hunter2&page=2", "curl https://x/y?token=***&page=2"),
    ("psql¦postgres://me:Hunter2@db:5432/shop", "psql postgres://me:***@db:5432/shop"),
    ("app¦--dsn=mysql://me:Hunter2@Hunter2@db/shop", "app --dsn=mysql://me:***@db/shop"),
    ("app¦redis://:Hunter2/Hunter2@db", "app redis://:***@db"),
    ("psql¦host=db password=Hunter2 user=me", "psql host=db password=*** user=me"),
    (
        "mount.cifs¦//nas/x¦/x¦-o¦username=me,password=Hunter2,rw",
        "mount.cifs //nas/x /x -o username=me,password=***,rw",
    ),
    ("openssl¦enc¦-pass¦pass:Hunter2", "openssl enc -pass ***"),
    ("smbclient¦//nas/x¦-U¦me%Hunter2", "smbclient //nas/x -U me%***"),
    ("aws¦AKIAHunter2Hunter2H¦x", "aws AKIA*** x"),
    ("git¦clone¦https://ghp_Hunter2Hunter2Hunter2Hunter2@github.com/a/b", "git clone https://***@github.com/a/b"),
    ("app¦Bearer Hunter2", "app Bearer ***"),
    ("docker¦login¦-u¦me¦-p¦Hunter2¦registry", "docker login -u me -p *** registry"),
    ("backup.sh¦-pHunter2¦shop", "backup.sh -p*** shop"),
    ("mosquitto_pub¦-u¦me¦-P¦Hunter2", "mosquitto_pub -u me -P ***"),
    ("mysql¦-u¦root¦-p¦Hunter2", "mysql -u root -p ***"),
    ("http¦authorization:Token¦Hunter2", "http authorization:Token ***"),
    ("http¦Authorization:Bearer Hunter2", "http Authorization:Bearer ***"),
    ("psql¦password = 'x Hunter2' user = me", "psql password = *** user = me"),
    ("app¦DB_PASSWORD¦=¦Hunter2", "app DB_PASSWORD = ***"),
    ("app¦--password¦--¦Hunter2", "app --password -- ***"),
    ("app¦--pin=Hunter2", "app --pin=***"),
    ("app¦--password\u{a0}Hunter2", "app --password\u{a0}***"),
    ("app¦--password\nHunter2", "app --password\n***"),
    ("htpasswd¦-b¦/etc/users¦me¦Hunter2", "htpasswd -b /etc/users me ***"),
    ("curl¦https://hooks.slack.com/services/T0/B0/Hunter2", "curl https://hooks.slack.com/services/***"),
    ("sh¦-c¦PGPASSWORD=Hunter2 psql -h db", "sh -c PGPASSWORD=***"),
    ("worker: login password=Hunter2 for me", "worker: login password=*** for me"),
];

#[test]
fn secrets_are_masked() {
    for (arguments, expected) in HIDDEN {
        let masked = masked_command_line(&arguments.split('¦').collect::<Vec<_>>());
        assert_eq!(masked, *expected, "{arguments}");
        assert!(!masked.contains("Hunter2"), "{masked}");
    }
}

#[test]
fn secrets_of_a_printed_command_line_are_masked() {
    for (arguments, _) in HIDDEN.iter().filter(|(arguments, _)| !arguments.contains(" with ")) {
        if !arguments.contains("Hunter2 Hunter2") {
            let masked = masked_command_text(&arguments.replace('¦', " "));
            assert!(!masked.contains("Hunter2"), "{masked}");
        }
    }
}

#[test]
fn what_is_no_secret_stays() {
    for line in [
        "tar cf /backup.tar /srv",
        "postgres: app app [local] COMMIT",
        "postgres: app shop 10.0.0.7(51234) authentication",
        "fio --name=x --filename=/data/f --rw=randread --bs=4k",
        "ssh -p 22 db",
        "mysqld --port=3306 --datadir=/var/lib/mysql",
        "vault agent --token-file=/run/token --max-tokens=5",
        "psql --no-password shop",
        "nginx: worker process",
        "rsync -p /a/b host:/c",
        "curl -u me http://x",
        "ssh://git@host/x",
        "git fetch 0123456789abcdef0123456789abcdef01234567",
        "qemu-system-x86_64 -name guest=web,debug-threads=on",
        "docker-proxy -proto tcp -host-ip 0.0.0.0",
        "docker run -p 8080:80 nginx",
        "cp -p Report2026.pdf /srv",
        "mkdir -p Backup/2026",
        "ps -p 1234",
        "patch -p1",
        "tar -pxf x.tar",
    ] {
        assert_eq!(masked_command_line(&line.split(' ').collect::<Vec<_>>()), line);
        assert_eq!(masked_command_line(&[line]), line);
    }
}

#[test]
fn the_middle_of_a_long_command_line_is_left_out() {
    let classes = format!("/opt/{}", "ä".repeat(400));
    let text = masked_command_line(&["java", "-cp", &classes, "org.example.Main"]);
    assert!(text.len() <= MAX_COMMAND_LINE_BYTES, "{}", text.len());
    assert!(text.starts_with("java -cp /opt/") && text.ends_with("org.example.Main") && text.contains('…'), "{text}");
}

#[test]
fn any_text_has_a_masked_form() {
    let pieces = [
        "",
        "=",
        "Bearer",
        ":\u{1f600}",
        ":",
        "'",
        "\"",
        "ä",
        "password",
        "://",
        "@",
        "-",
        "--token",
        " ",
        "-p",
        "curl",
        "&",
        "…",
    ];
    for a in pieces {
        for b in pieces {
            for c in pieces {
                let joined = format!("{a}{b}{c}");
                _ = masked_command_line(&[a, b, c]);
                _ = masked_command_line(&["mysql", "-u", &joined, &joined]);
            }
        }
    }
}

#[test]
fn a_printed_command_line_has_the_name_of_its_program() {
    for (text, name) in [
        ("tar cf /backup.tar /srv", "tar"),
        ("/usr/sbin/mysqld --port=1", "mysqld"),
        ("postgres: app shop [local] COMMIT", "postgres"),
        ("[kworker/u8:3 flush]", "[kworker/u8:3 flush]"),
        ("dd", "dd"),
        ("PGPASSWORD=x LC_ALL=C /usr/bin/psql -h db", "psql"),
        ("/ x", "/ x"),
        ("", ""),
    ] {
        assert_eq!(program_of_command(text), name);
    }
}

#[test]
fn an_interpreter_runs_a_script() {
    for (text, script) in [
        ("python3 -u /opt/backup.py --all", Some("backup.py")),
        ("/usr/bin/python3.11 -m http.server 80", Some("http.server")),
        ("java -Xmx1g -cp /a:/b org.example.Main x", Some("org.example.Main")),
        ("java -jar /srv/app.jar", Some("/srv/app.jar")),
        ("bash -c sleep", None),
        ("bash", None),
        ("tar cf x", None),
        ("", None),
    ] {
        assert_eq!(script_of_command(text), script, "{text}");
    }
}
