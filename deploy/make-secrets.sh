#!/bin/sh
# Make what is missing in ./secrets for docker-compose.yml, from the system's random numbers; nothing that is there is
# replaced. With `rabbitmq` or `redis` behind it, the broker's address (only that) is made anew for that broker.
# The directory is closed to others; the files are not, since the containers' users have to read them.
set -eu
cd "$(dirname "$0")/.."
umask 022
mkdir -p secrets
chmod 0700 secrets

random() {
    head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'
}

put() {
    if [ -e "secrets/$1" ]; then
        echo "kept  secrets/$1"
    else
        printf '%s\n' "$2" > "secrets/$1"
        echo "made  secrets/$1"
    fi
}

put postgres_password "$(random)"
put database_url "postgresql://supportpilot:$(cat secrets/postgres_password)@db:5432/supportpilot"
put redis_conf "requirepass $(random)
appendonly no
save \"\"
maxmemory 256mb
maxmemory-policy noeviction"
put rabbitmq_conf "default_user = supportpilot
default_pass = $(random)"
case "${1:-}" in
    "") ;;
    redis | rabbitmq) rm -f secrets/broker_url ;;
    *) echo "usage: sh deploy/make-secrets.sh [redis|rabbitmq]" >&2; exit 2 ;;
esac
if [ "${1:-redis}" = rabbitmq ]; then
    password=$(sed -n 's/^default_pass = //p' secrets/rabbitmq_conf)
    put broker_url "amqp://supportpilot:$password@rabbitmq:5672//"
else
    password=$(sed -n 's/^requirepass //p' secrets/redis_conf)
    put broker_url "redis://:$password@redis:6379/0"
fi
put webhook_secret "whsec_$(head -c 32 /dev/urandom | base64 | tr -d '\n')"
put reply_callback_secret "whsec_$(head -c 32 /dev/urandom | base64 | tr -d '\n')"
put customer_link_secret "$(random)$(random)"
put flower_basic_auth "admin:$(random)"
put openai_api_key ""
put notify_urls ""
for helpdesk in chatwoot zendesk freshdesk intercom zammad; do
    put "${helpdesk}_token" ""
done
put mail_secret "$(random)"
put imap_urls ""
put smtp_url ""
put smtp_sent_url ""
