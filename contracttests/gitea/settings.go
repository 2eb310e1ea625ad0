package gitea

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// settings renders app.ini. Everything that would reach out, send mail or run in the
// background without a test's asking is off, and the database takes the journal that makes
// the first migration a matter of a second. The issue indexer stays on, because its lag is
// one of the things that a connector has to live with.
func (c Config) settings(dir string, port int) string {
	life := c.AccessTokenLife
	if life == 0 {
		life = time.Hour
	}
	hosts := append([]string{"loopback", "private"}, c.WebhookHosts...)
	return fmt.Sprintf(`APP_NAME = Tickets
RUN_MODE = prod
WORK_PATH = %[1]s

[server]
STATIC_ROOT_PATH = %[2]s
APP_DATA_PATH = %[1]s/data
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[3]d
ROOT_URL = http://127.0.0.1:%[3]d/
OFFLINE_MODE = true
DISABLE_SSH = true
LFS_START_SERVER = false
ALLOW_GRACEFUL_RESTARTS = false
GRACEFUL_HAMMER_TIME = 3s

[database]
DB_TYPE = sqlite3
PATH = %[1]s/data/gitea.db
SQLITE_JOURNAL_MODE = WAL

[repository]
ROOT = %[1]s/repositories

[security]
INSTALL_LOCK = true
SECRET_KEY = %[4]s
INTERNAL_TOKEN = %[5]s
; Basic authentication at every provisioning call, with the default of 320,000 rounds,
; would be most of a test's time.
PASSWORD_HASH_ALGO = pbkdf2$1000$16

[oauth2]
JWT_SECRET = %[6]s
ACCESS_TOKEN_EXPIRATION_TIME = %[7]d
INVALIDATE_REFRESH_TOKENS = %[8]t

[webhook]
ALLOWED_HOST_LIST = %[9]s

[service]
DISABLE_REGISTRATION = true
DEFAULT_ALLOW_CREATE_ORGANIZATION = true

[openid]
ENABLE_OPENID_SIGNIN = false
ENABLE_OPENID_SIGNUP = false

[picture]
DISABLE_GRAVATAR = true

[actions]
ENABLED = false

[packages]
ENABLED = false

[cron]
ENABLED = false

[cron.update_checker]
ENABLED = false

[mailer]
ENABLED = false

[session]
PROVIDER = memory

[log]
MODE = console
LEVEL = Info
`, dir, c.Static, port, rand.Text(), rand.Text()+rand.Text(), secret32(), int64(life/time.Second), !c.ReuseRefreshTokens, strings.Join(hosts, ","))
}

// secret32 is what Gitea asks of a JWT secret: 32 bytes in unpadded base64url.
func secret32() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}
